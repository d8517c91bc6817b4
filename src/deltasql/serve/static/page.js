// Two things: the theme's button, and pages that refresh themselves.
"use strict";

// Sooner while a job is under way.
const EVERY = 5000;
const SOON = 1000;

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-button]")) return;
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  try { localStorage.setItem("deltasql-theme", root.dataset.theme); } catch { /* not kept */ }
});

// Not while somebody types, selects or looks elsewhere: nothing may jump under their hands.
function isBusy() {
  const active = document.activeElement;
  const types = active && active.matches("input, textarea, select");
  return document.hidden || types || String(getSelection()).length > 0;
}

// What a page was when it was last asked for: while it stays that, it is not sent again.
const tags = new Map();

async function refresh() {
  const shown = document.querySelectorAll("[data-refresh]");
  if (!shown.length || isBusy()) return;
  // A page that is dear, and shows a version that does not change, takes the rest from another.
  const from = document.getElementById("main").dataset.freshFrom || location.href;
  const headers = { Accept: "text/html" };
  if (tags.has(from)) headers["If-None-Match"] = tags.get(from);
  const answer = await fetch(from, { headers });
  if (!answer.ok || answer.redirected || isBusy()) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  let isWhole = true;
  for (const old of shown) {
    const found = fresh.getElementById(old.id);
    if (!found || found.isEqualNode(old)) continue;
    const focused = old.contains(document.activeElement);
    if (focused) isWhole = false;
    else old.replaceWith(document.adoptNode(found));
  }
  const tag = answer.headers.get("ETag");
  if (isWhole && tag) tags.set(from, tag); else tags.delete(from);
}

async function go() {
  try { await refresh(); } catch { /* the service is away: try again */ }
  next();
}

function next() {
  setTimeout(go, document.querySelector("progress") ? SOON : EVERY);
}

next();
