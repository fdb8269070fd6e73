// The last bench of each model, and the advice beside the load that is really there.
import {known, made, sentence} from "./tell.js";
import {stamp} from "./times.js";

const tokens = (value) => known(value) ? value.toLocaleString("en", {maximumFractionDigits: value < 100 ? 1 : 0}) : "not known";
const ms = (value) => known(value) ? `${Math.round(value * 1000).toLocaleString("en")} ms` : "not known";

function table(bench) {
  const when = stamp(bench.began);
  const load = `prompts of ${tokens(bench.prompt)} tokens, answers of ${tokens(bench.answer)}`;
  const caption = made("caption", {}, `The last bench, ${when}: ${bench.recipe}, ${load} (${bench.profile}, ${bench.folder})`);
  const head = ["Setup", "Users", "Tokens a second", "First token, p50"].map((name) => made("th", {scope: "col"}, name));
  const rows = bench.rows.map((row) => made("tr", {},
    made("th", {scope: "row"}, row.setup), made("td", {}, String(row.users)), made("td", {}, tokens(row.decode)), made("td", {}, ms(row.first))));
  return made("table", {}, caption, made("thead", {}, made("tr", {}, ...head)), made("tbody", {}, ...rows));
}

export function advice(state) {
  return state.models.map((model) => {
    const said = model.advice;
    const parts = [made("p", {"class": "advice"}, ...sentence(said.sentence))];
    if (said.lengths) parts.push(made("p", {"class": "from"}, said.lengths));
    if (said.source) parts.push(made("p", {"class": "from"}, `Where that is from: ${said.source}.`));
    if (model.bench) parts.push(table(model.bench));
    const title = state.models.length > 1 ? [made("h3", {}, model.name)] : [];
    return made("div", {}, ...title, ...parts);
  });
}
