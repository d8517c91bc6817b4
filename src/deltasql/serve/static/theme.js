// Before the page is drawn: the theme that was chosen here, else the system's.
"use strict";
try {
  const chosen = localStorage.getItem("deltasql-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* storage is off: the system's theme it is */ }
