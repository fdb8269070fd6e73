// The package `@anthropic-ai/sdk`.
import Anthropic from "@anthropic-ai/sdk";
import { ANSWER, attempt, CALL, KEY, left, MODEL, PNG, SCHEMA, SEEN, SILENT, unless, URL_OF, write } from "./trying.mjs";

const client = new Anthropic({ baseURL: URL_OF, apiKey: KEY, maxRetries: 0 });
const ask = (content, more = {}) => ({ model: MODEL, max_tokens: 99, messages: [{ role: "user", content }], ...more });

await attempt("answer", async () => unless((await client.messages.create(ask("Hi"))).content[0].text, ANSWER));
await attempt("stream", async () => unless(await client.messages.stream(ask("Hi")).finalText(), ANSWER));
await attempt("tool", async () => {
  const tools = [{ name: "write_file", input_schema: SCHEMA }];
  return write((await client.messages.stream(ask(CALL, { tools })).finalMessage()).content[0].input);
});
await attempt("picture", async () => {
  const source = { type: "base64", media_type: "image/png", data: PNG };
  const got = await client.messages.create(ask([{ type: "image", source }, { type: "text", text: "What?" }]));
  return unless(got.content[0].text, SEEN);
});
await attempt("interrupt", async () => {
  let count = 0;
  for await (const _ of client.messages.stream(ask("PIECES 400"))) if (++count === 5) break;
  return left();
});
await attempt("silence", async () => unless(await client.messages.stream(ask(SILENT)).finalText(), ANSWER));
await attempt("count_tokens", async () =>
  unless((await client.messages.countTokens({ model: MODEL, messages: [{ role: "user", content: "Hi" }] })).input_tokens, 1000));
