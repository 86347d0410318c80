import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { en, type Key } from "../src/i18n/en";
import events from "../src/i18n/events.json";
import glossary from "../src/i18n/glossary.json";
import reasons from "../src/i18n/reasons.json";
import { zh } from "../src/i18n/zh";

const keys = Object.keys(en) as Key[];
// Removes commands and option names, which are the same in both languages.
const prose = (text: string) => text.replace(/“[^”]*”|\{\w+\}|volador [a-z ]+/g, "");

test("where an English text has a term of the glossary, the Chinese one has its translation", () => {
  const wrong: string[] = [];
  for (const { en: term, zh: wanted } of glossary.terms) {
    for (const key of keys) if (new RegExp(term, "i").test(prose(en[key])) && !new RegExp(wanted).test(zh[key])) wrong.push(`${key}: ${term} is ${wanted}, not in: ${zh[key]}`);
  }
  assert.deepEqual(wrong, []);
});

test("Latin words stand apart from Chinese ones", () => {
  const chinese = [...Object.values(zh), ...Object.values(events), ...Object.values(reasons).map((one) => one.zh)];
  assert.deepEqual(chinese.filter((text) => /[\u4e00-\u9fff][A-Za-z]|[A-Za-z][\u4e00-\u9fff]/.test(text)), []);
});

test("the terminal's own Chinese texts keep to the glossary too", () => {
  const own = Object.entries((JSON.parse(readFileSync("../../runtime/language/zh.json", "utf8")) as { messages: Record<string, string> }).messages);
  const wrong: string[] = [];
  for (const { en: term, zh: wanted, not_zh } of glossary.terms) {
    for (const [english, text] of own) {
      if (new RegExp(term, "i").test(prose(english)) && !new RegExp(wanted).test(text)) wrong.push(`${english}: ${term} is ${wanted}, not in: ${text}`);
      for (const word of not_zh) if (prose(text).includes(word)) wrong.push(`${english}: ${text} (${word})`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("no text uses a word that the glossary rules out", () => {
  const wrong: string[] = [];
  const chinese: [string, string][] = [...keys.map((key): [string, string] => [key, zh[key]]), ...Object.entries(events), ...Object.values(reasons).map((one): [string, string] => [one.en, one.zh])];
  for (const { not_zh } of glossary.terms) for (const word of not_zh) for (const [key, text] of chinese) if (prose(text).includes(word)) wrong.push(`${key}: ${text} (${word})`);
  for (const word of glossary.not_en) for (const key of keys) if (new RegExp(word).test(en[key])) wrong.push(`${key}: ${en[key]} (${word})`);
  assert.deepEqual(wrong, []);
});
