// A client in another language, without packages: node client.mjs URL TABLE [FILE SIZE]
// Shows a table, and with FILE commits a data file that was uploaded to the table's folder.
// DELTASQL_TOKEN is the token, where the service asks for one.
import { randomUUID } from "node:crypto";

const [url, table, file, size] = process.argv.slice(2);
const headers = { "Content-Type": "application/json" };
if (process.env.DELTASQL_TOKEN) headers.Authorization = `Bearer ${process.env.DELTASQL_TOKEN}`;

async function ask(path, body) {
  const method = body === undefined ? "GET" : "POST";
  const address = `${url}/api/v1/tables/${encodeURIComponent(table)}${path}`;
  const answer = await fetch(address, { method, headers, body: body && JSON.stringify(body) });
  const told = await answer.json();
  if (!answer.ok) throw new Error(`${told.problem}: ${told.cause} (${told.remedy})`);
  return told;
}

const snapshot = await ask("/snapshot");
console.log(`${table} is at version ${snapshot.version}`);
console.log(`columns: ${snapshot.columns.map((column) => `${column.name} ${column.type}`).join(", ")}`);

// Every live file, page by page, all of one version.
let after = "";
let files = 0;
do {
  const page = await ask(`/files?version=${snapshot.version}&after=${encodeURIComponent(after)}`);
  files += page.files.length;
  after = page.next;
} while (after !== null);
console.log(`${files} live files`);

if (file) {
  const add = {
    path: file,
    partitionValues: {},
    size: Number(size),
    modificationTime: Date.now(),
    dataChange: true,
  };
  // One id for the commit, however often it is sent: a lost answer is asked for again.
  const commit = { commit_id: randomUUID(), actions: [{ add }] };
  const first = await ask("/commits", commit);
  const again = await ask("/commits", commit);
  console.log(`committed as version ${first.version}, sent again: ${again.version}`);
}
