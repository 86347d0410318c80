import assert from "node:assert/strict";
import { test } from "node:test";
import { aliases_text, label_changes, labels_of, metadata_of, metadata_text, path_of } from "../src/pages/model_rows";
import { in_shell } from "../src/ui/names";

test("a path of the API quotes the name", () => {
  assert.equal(path_of("digits 2"), "/api/v1/models/digits%202");
  assert.equal(path_of("数字", 3), `/api/v1/models/${encodeURIComponent("数字")}/versions/3`);
});

test("a command quotes a name with spaces", () => {
  assert.equal(in_shell("digits@production"), "digits@production");
  assert.equal(in_shell("digits 2"), "'digits 2'");
});

test("aliases are ordered by name", () => {
  assert.equal(aliases_text({ staging: 3, production: 2 }), "production → 2, staging → 3");
  assert.equal(aliases_text({}), "");
});

test("labels of a form become additions and removals", () => {
  assert.deepEqual(labels_of(" a, b ,,a"), ["a", "b"]);
  assert.deepEqual(label_changes(["a", "b"], ["b", "c"]), { add_labels: ["c"], remove_labels: ["a"] });
});

test("metadata is a JSON object or nothing", () => {
  assert.deepEqual(metadata_of(" "), {});
  assert.deepEqual(metadata_of('{"a": 1}'), { a: 1 });
  for (const wrong of ["[1]", "1", "null", "{"]) assert.equal(metadata_of(wrong), null);
  assert.equal(metadata_text({}), "");
  assert.equal(metadata_text({ a: 1 }), '{\n  "a": 1\n}');
});
