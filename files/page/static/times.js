// Every time on the page is the answering node's: its zone, 24 hours. A browser elsewhere shows the same figures.

const two = (number) => String(number).padStart(2, "0");
// Until the first answer there is the browser's own zone alone.
let ahead = -new Date().getTimezoneOffset() * 60;

// Throws where an answer does not say it: it is another version's.
export function setZone(seconds) {
  if (!Number.isFinite(seconds)) throw new TypeError("no time zone");
  ahead = seconds;
}

// A Date whose UTC parts are the node's.
const shifted = (when) => new Date((when + ahead) * 1000);

export function day(when) {
  const date = shifted(when);
  return `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
}

export function minute(when) {
  const date = shifted(when);
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
}

export function second(when) {
  return `${minute(when)}:${two(shifted(when).getUTCSeconds())}`;
}

// With its day: a page may lie open for a week.
export const stamp = (when) => `${day(when)} ${second(when)}`;

// The same for uPlot, which reads a Date's local parts.
export function local(when) {
  const date = shifted(when);
  return new Date(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds());
}
