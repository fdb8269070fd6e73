// The package `openai`.
import OpenAI from "openai";
import { ANSWER, attempt, CALL, KEY, LATE, left, MODEL, PNG, SCHEMA, SEEN, SILENT, unless, URL_OF, VECTOR, write } from "./trying.mjs";

const client = new OpenAI({ baseURL: `${URL_OF}/v1`, apiKey: KEY, maxRetries: 0 });
const ask = (content, more = {}) => ({ model: MODEL, messages: [{ role: "user", content }], ...more });

async function text(content) {
  let said = "";
  for await (const chunk of await client.chat.completions.create(ask(content, { stream: true }))) {
    said += chunk.choices[0].delta.content ?? "";
  }
  return said;
}

await attempt("answer", async () =>
  unless((await client.chat.completions.create(ask("Hi"))).choices[0].message.content, ANSWER));
await attempt("stream", async () => unless(await text("Hi"), ANSWER));
await attempt("tool", async () => {
  const tools = [{ type: "function", function: { name: "write_file", parameters: SCHEMA } }];
  const stream = client.chat.completions.stream(ask(CALL, { tools }));
  const call = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
  return write(JSON.parse(call.function.arguments));
});
await attempt("vector", async () =>
  unless((await client.embeddings.create({ model: MODEL, input: "a", encoding_format: "float" })).data[0].embedding, VECTOR));
await attempt("vector, base64", async () =>
  unless((await client.embeddings.create({ model: MODEL, input: "a" })).data[0].embedding, VECTOR));
await attempt("picture", async () => {
  const parts = [{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }, { type: "text", text: "What?" }];
  return unless((await client.chat.completions.create(ask(parts))).choices[0].message.content, SEEN);
});
await attempt("interrupt", async () => {
  const stream = await client.chat.completions.create(ask("PIECES 400", { stream: true }));
  let count = 0;
  for await (const _ of stream) if (++count === 3) break;
  return left();
});
// Node's fetch gives up after 300 s without a byte; the package's own `timeout` ends with the headers.
await attempt("silence", async () => unless(await text(SILENT), ANSWER));
await attempt("responses", async () => {
  const said = unless((await client.responses.create({ model: MODEL, input: "Hi" })).output_text, ANSWER);
  let streamed = "";
  for await (const event of await client.responses.create({ model: MODEL, input: SILENT, stream: true })) {
    if (event.type === "response.output_text.delta") streamed += event.delta;
  }
  const late = await client.responses.stream({ model: MODEL, input: LATE }).finalResponse();
  return said || unless(streamed, ANSWER) || unless(late.output_text, ANSWER);
});
