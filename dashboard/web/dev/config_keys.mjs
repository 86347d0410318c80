// Reads the tables of docs/experiment-config.md, which the schema's test writes: the keys of a configuration that the page's editor completes.
// In dashboard/web, `node dev/config_keys.mjs` writes them; Chinese texts of new ones go into src/i18n/config_keys_zh.json by hand.
import { readFileSync, writeFileSync } from "node:fs";

const kDocument = "../../docs/experiment-config.md";
const kFile = "src/i18n/config_keys.json";
const kLeftOut = /^(?:slurm|pbs|integrations|security)\b/;  // Settings of other systems.
const kNoLongerRun = ["adaptive", "adaptive_simple", "sync_halving"];

// [{ at: "searcher", when: ["name", "random"], keys: { max_trials: ["a whole number of at least 1", "required", "Number of trials."] } }]. `when`: only with this value of this key.
export function config_keys(text) {
  const sections = [];
  let at = "";
  let section = null;
  for (const line of text.split("\n")) {
    const title = /^## (?:`([^`]+)`|Top level)$/.exec(line);
    const variant = /^### `(\w+): (\w+)`$/.exec(line);
    if (title) at = title[1] ?? "";
    if (title || variant) sections.push(section = { at, ...(variant ? { when: [variant[1], variant[2]] } : {}), keys: {} });
    const row = /^\| `([^`]+)` \| (.*) \| (.*) \| (.*) \|$/.exec(line);
    if (!row || !section || /Accepted, (?:not used|no effect)/.test(row[4])) continue;
    section.keys[row[1]] = [row[2].replace(`, ${kNoLongerRun.join(", ")}`, ""), row[3].replace(/^`|`$/g, ""), row[4].replace(/ (?:Also read from|`\w+` is read as) .*$/, "").replace(/^See below[^.]*\.$/, "")];
  }
  return sections.filter((one) => Object.keys(one.keys).length > 0 && !kLeftOut.test(one.at) && !kNoLongerRun.includes(one.when?.[1]));
}

export const written = () => config_keys(readFileSync(kDocument, "utf8"));

if (process.argv[1]?.endsWith("dev/config_keys.mjs")) writeFileSync(kFile, JSON.stringify(written(), null, 1) + "\n");
