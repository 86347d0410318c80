import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { en } from "../src/i18n/en";
import events from "../src/i18n/events.json";
import glossary from "../src/i18n/glossary.json";
import { fill } from "../src/i18n/fill";
import { zh } from "../src/i18n/zh";

// Texts that are intentionally the same in both languages.
const kSame = new Set(glossary.same);
const places = (text: string) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]))].sort();

test("every English text has a Chinese one and the other way round", () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
});

test("no Chinese text equals the English one", () => {
  const same = Object.entries(en).filter(([key, text]) => zh[key as keyof typeof en] === text && !kSame.has(text.trim()));
  assert.deepEqual(same.map(([key]) => key), []);
});

test("every Chinese text holds Chinese", () => {
  assert.deepEqual(Object.entries(zh).filter(([, text]) => !/[\u4e00-\u9fff]/.test(text) && !kSame.has(text.trim())).map(([key]) => key), []);
});

test("both languages fill the same places; only the count may be left to one of them", () => {
  for (const [key, text] of Object.entries(en)) {
    const without_count = (names: string[]) => names.filter((name) => name !== "n" && name !== "shown");
    assert.deepEqual(without_count(places(zh[key as keyof typeof en])), without_count(places(text)), key);
  }
});

test("one and many are chosen by n", () => {
  assert.equal(fill("{n} row|{n} rows", { n: 1 }), "1 row");
  assert.equal(fill("{n} row|{n} rows", { n: 0 }), "0 rows");
  assert.equal(fill("a {b} {c}", { b: "x" }), "a x {c}");
});

test("every event of the head, of jobs and of experiments has a Chinese text, and no other", () => {
  const root = "../../";
  const texts = new Set<string>();
  const folders = ["jobs", "experiments/core", "experiments/models", "experiments/katib", ...readdirSync(root + "head").filter((name) => !name.includes(".")).map((name) => `head/${name}`)];
  for (const file of folders.flatMap((folder) => readdirSync(root + folder).filter((name) => name.endsWith(".cc")).map((name) => `${folder}/${name}`))) {
    for (const [, call] of readFileSync(root + file, "utf8").matchAll(/\bevent(?:_of)?\(([^;{]*?)\{/g)) for (const [, text] of call.matchAll(/"([^"]+)"/g)) texts.add(text);
    for (const [, text] of readFileSync(root + file, "utf8").matchAll(/\bevent\(\*?held, "([^"]+)"/g)) texts.add(text);
  }
  assert.deepEqual(Object.keys(events).sort(), [...texts].sort());
  assert.deepEqual(Object.values(events).filter((text) => !/[\u4e00-\u9fff]/.test(text)), []);
});
