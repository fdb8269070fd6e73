// A question to the page's own program, and in words why there is no answer that can be shown.

const WAIT_MS = 4000;

// The program, or the proxy before it, said so with a status.
class Refused extends Error {
  constructor(status, said) {
    super(said);
    this.status = status;
  }
}

// Nothing came, or not the whole of it.
class Silent extends Error {}

async function said(path) {
  try {
    // Of an address with a name and a key in it nothing can be fetched; the browser sends them all the same.
    const from = new URL(path, location.origin + location.pathname);
    const answer = await fetch(from, {cache: "no-store", signal: AbortSignal.timeout(WAIT_MS)});
    return {answer, text: await answer.text()};
  } catch (error) {
    throw new Silent(error.name === "TimeoutError" ? `There is no answer within ${WAIT_MS / 1000} seconds` : "Nobody answers");
  }
}

export async function asked(path) {
  const {answer, text} = await said(path);
  if (answer.ok) return JSON.parse(text);
  // The program's own word is plain text; HAProxy's is a page of its own.
  const plain = (answer.headers.get("Content-Type") ?? "").startsWith("text/plain");
  throw new Refused(answer.status, plain ? text.trim().slice(0, 200) : "");
}

export function trouble(error) {
  if (error instanceof Silent) return error.message;
  if (error instanceof Refused && error.status === 401) {
    return "The key is refused (401): load this page anew, and give the key that `tandem endpoint` prints";
  }
  if (error instanceof Refused) return `The answer is an error (${error.status}${error.message ? `: ${error.message}` : ""})`;
  // What came can't be shown: it is another version's, after a deploy.
  return "The answer is none that this page knows: load this page anew";
}
