// Projects and workspaces of experiments, and the form that moves them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { is_in, is_movable, project_path } from "../src/pages/configured";
import { counted, field_of, known_names, move_command, projects_of, workspaces_of, type Counted } from "../src/pages/project_rows";

const row = (id: number, more: Partial<Counted>): Counted => ({ id, state: "COMPLETED", archived: false, created_ms: id, ended_ms: 0, user: "", workspace: "", project: "", ...more });
const rows = [
  row(1, { workspace: "vision", project: "digits", user: "mei", ended_ms: 90 }),
  row(2, { workspace: "vision", project: "digits", user: "ada", state: "ACTIVE" }),
  row(3, { workspace: "vision", project: "digits", user: "mei", state: "STOPPING_KILLED", archived: true }),
  row(4, { workspace: "vision", project: "faces", state: "ERROR", archived: true, created_ms: 400 }),
  row(5, { workspace: "speech", project: "digits", state: "PAUSED" }),
  row(6, { state: "ACTIVE" }),
  row(7, { state: "NEW_STATE" }),
];

test("experiments are counted by project and state, with users and the last activity", () => {
  const projects = projects_of(counted(rows, false));
  assert.deepEqual(projects.map((one) => [one.workspace, one.project, one.experiments]), [["vision", "digits", 2], ["speech", "digits", 1], ["", "", 2]]);
  const [digits, , none] = projects;
  assert.deepEqual(digits.states, [["ACTIVE", 1], ["COMPLETED", 1]]);
  assert.deepEqual([digits.users, digits.activity_ms], [["ada", "mei"], 90]);
  assert.deepEqual(none.states, [["ACTIVE", 1], ["NEW_STATE", 1]]);
});

test("archived experiments, and projects that have no others, count on request", () => {
  const projects = projects_of(counted(rows, true));
  assert.deepEqual(projects.map((one) => `${one.workspace}/${one.project} ${one.experiments}`), ["vision/digits 3", "vision/faces 1", "speech/digits 1", "/ 2"]);
  assert.deepEqual(projects[0].states, [["ACTIVE", 1], ["STOPPING", 1], ["COMPLETED", 1]]);
  assert.deepEqual(workspaces_of(counted(rows, true)).map((one) => [one.workspace, one.projects, one.experiments, one.activity_ms]), [["vision", 2, 4, 400], ["speech", 1, 1, 5], ["", 1, 2, 7]]);
});

test("names with separators stay apart", () => {
  const odd = [row(1, { workspace: "a / b", project: "c" }), row(2, { workspace: "a", project: "b / c" }), row(3, { workspace: "a", project: 'b",' })];
  assert.equal(projects_of(odd).length, 3);
  assert.deepEqual(project_path(odd[0]), ["projects", "a / b", "c"]);
  assert.deepEqual(project_path(row(1, {})), ["uncategorized"]);
  assert.ok(is_in(odd[0], { workspace: "a / b", project: "c" }) && !is_in(odd[0], odd[1]));
  assert.ok(is_in(row(1, {}), { workspace: "", project: "" }));
});

test("the form offers the projects of its workspace", () => {
  assert.deepEqual(known_names(rows, "vision"), { workspaces: ["speech", "vision"], projects: ["digits", "faces"] });
  assert.deepEqual(known_names(rows, "speech").projects, ["digits"]);
  assert.deepEqual(known_names(rows, "new").projects, ["digits", "faces"]);
});

test("an error of the head stands at its field", () => {
  const place = { workspace: "vision", project: "digits" };
  assert.equal(field_of('workspace: expected 0 to 128 bytes in one line, got "…"', place), "workspace");
  assert.equal(field_of('project: expected 0 to 128 bytes in one line, got "a"', place), "project");
  assert.equal(field_of("experiment 7: workspace and project: expected two names, or two empty ones", { workspace: "vision", project: "" }), "project");
  assert.equal(field_of("experiment 7: workspace and project: expected two names, or two empty ones", { workspace: "", project: "digits" }), "workspace");
  assert.equal(field_of("experiment 7 is of user mei; only its owner and operators may change it", place), null);
});

test("the same in a terminal quotes names and shortens a long list", () => {
  assert.equal(move_command([7], { workspace: "vision", project: "hand written" }), "volador experiment move 7 --workspace=vision --project='hand written'");
  assert.equal(move_command([7], { workspace: "", project: "" }), "volador experiment move 7 --workspace=WORKSPACE --project=PROJECT");
  assert.equal(move_command([1, 2], { workspace: "a", project: "b" }), 'for id in 1 2; do volador experiment move "$id" --workspace=a --project=b; done');
  assert.ok(move_command(Array.from({ length: 30 }, (_, i) => i + 1), { workspace: "a", project: "b" }).startsWith("for id in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 …; do"));
});

test("an experiment that is being deleted is not moved", () => {
  assert.deepEqual(["ACTIVE", "COMPLETED", "DELETING", "DELETE_FAILED"].map((state) => is_movable({ state })), [true, true, false, false]);
});
