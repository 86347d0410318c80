import assert from "node:assert/strict";
import { test } from "node:test";
import { card_of, type CardColumn } from "../src/ui/cards";

const keys = (columns: CardColumn[]) => columns.map((one) => one.key);

test("a card has the first text as its title, its state beside it, and the fields for small screens first, in the order of the table", () => {
  const card = card_of<CardColumn>([{ key: "position", right: true }, { key: "name" }, { key: "state", card: "side", small: true }, { key: "a" }, { key: "b" }, { key: "c", small: true }, { key: "d", small: true }, { key: "e", small: true }, { key: "reason", card: "wide" }, { key: "do", card: "act" }]);
  assert.equal(card.title.key, "name");
  assert.equal(card.side?.key, "state");
  assert.deepEqual(keys(card.fields), ["position", "c", "d", "e"]);
  assert.deepEqual([keys(card.wide), keys(card.acts)], [["reason"], ["do"]]);
});

test("a column may be the title although it is a number; one that is never shown is not; the height follows what is there", () => {
  const card = card_of<CardColumn>([{ key: "worker" }, { key: "number", right: true, card: "title" }, { key: "fields", card: "never" }]);
  assert.equal(card.title.key, "number");
  assert.deepEqual(keys(card.fields), ["worker"]);
  assert.ok(card_of<CardColumn>([{ key: "a" }, { key: "b" }]).height > card_of<CardColumn>([{ key: "a" }]).height);
});

test("a column of its own lines takes no room where no row has anything in it", () => {
  const columns: CardColumn[] = [{ key: "a" }, { key: "reason", card: "wide" }];
  assert.deepEqual(keys(card_of(columns, () => false).wide), []);
  assert.ok(card_of(columns, () => false).height < card_of(columns).height);
});
