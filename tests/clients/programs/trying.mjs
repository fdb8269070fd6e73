// As trying.py, for Node: each task once, and a line of JSON for what came of it.
import { readFileSync, writeFileSync } from "node:fs";

export const { DOOR: URL_OF, DOOR_KEY: KEY, ENGINE } = process.env;
export const MODEL = "double", ANSWER = "The answer is 42.", VECTOR = [0.5, -0.25, 0.125, 1.0];
export const SILENT = "SILENT 9", LATE = "LATE 9";
// A picture, and what the engine says of it.
export const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const SEEN = `A picture of ${Buffer.from(PNG, "base64").length} bytes.`;
export const CALL = 'CALL write_file {"path": "made.txt", "text": "made by a tool\\n"} END';
export const SCHEMA = { type: "object", properties: { path: { type: "string" }, text: { type: "string" } } };

// `task` gives nothing, or what is wrong.
export async function attempt(name, task) {
  let wrong;
  try {
    wrong = await task();
  } catch (error) {
    wrong = `${error.constructor.name}: ${error.message}`;
  }
  console.log(JSON.stringify({ task: name, wrong: (wrong ?? "").replace(/\s+/g, " ").slice(0, 300) }));
}

export function unless(said, wanted) {
  const [one, other] = [JSON.stringify(said), JSON.stringify(wanted)];
  return one === other ? "" : `${one}, and not ${other}`;
}

// The tool.
export function write({ path, text }) {
  writeFileSync(path, text);
  return unless(readFileSync("made.txt", "utf8"), "made by a tool\n");
}

// Whether an engine still works for a client that has gone.
export async function left() {
  for (let tries = 0; tries < 100; tries++) {
    if ((await (await fetch(`${ENGINE}/under_way`)).text()) === "0") return "";
    await new Promise((done) => setTimeout(done, 100));
  }
  return "the engine still works for it after 10 s";
}
