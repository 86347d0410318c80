// Rebuilds dist in a temporary folder, compares it byte for byte with the committed one, and checks its size.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const kGzipMax = 186_000;
const kLater = { terminal: 90_000, submit_form: 6_000, configured_view: 5_000, job_usage: 6_000, users: 6_000, part: 500, configured_texts: 3_000, configured: 3_000, experiment_list: 7_000, new_experiment: 185_000, code_view: 4_000, config_diff: 1_500, other_experiment: 4_000, code_archive: 6_000, katib_view: 2_500, katib_trials: 4_000, katib_apply: 3_500, katib_form: 10_000, reasons_en: 9_000, explained_view: 2_500, katib_texts: 1_500, katib_resource: 1_500, search_preview: 2_500, models: 6_000, model_register: 1_500, model_rows: 3_000, projects: 2_500, projects_texts: 2_500, move_project: 1_500, experiment_poll: 1_500, markdown: 3_000, markdown_worker: 18_000, katib_template: 6_000, katib_document: 3_000, katib_nas: 3_000, trial_profile: 2_500 };
const root = fileURLToPath(new URL("..", import.meta.url));
const out = mkdtempSync(join(tmpdir(), "volador-dist-"));
const files = (folder) => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile()).map((one) => join(one.path ?? one.parentPath, one.name).slice(folder.length + 1)).sort();
const problems = [];
try {
  const run = spawnSync(process.execPath, [join(root, "node_modules/vite/bin/vite.js"), "build", "--outDir", out, "--logLevel", "error"], { cwd: root, stdio: "inherit" });
  if (run.status !== 0) problems.push("vite build failed");
  const [built, kept] = [files(out), files(join(root, "dist"))];
  if (built.join() !== kept.join()) problems.push(`dist holds ${kept.join(", ")}; a build makes ${built.join(", ")}`);
  for (const name of built) {
    if (kept.includes(name) && !readFileSync(join(out, name)).equals(readFileSync(join(root, "dist", name)))) problems.push(`dist/${name} is not what its sources make: run “npm run build” and commit it`);
  }
  const part_of = (name) => Object.keys(kLater).find((part) => name.startsWith(`assets/${part}.`));
  const parts = Object.entries(kLater).map(([part, most]) => [`dist, ${part}`, part, most]);
  for (const [what, part, most] of [["dist", undefined, kGzipMax], ...parts]) {
    const names = kept.filter((name) => part_of(name) === part);
    const bytes = names.reduce((sum, name) => sum + gzipSync(readFileSync(join(root, "dist", name)), { level: 9 }).length, 0);
    console.log(`${what}: ${names.length} files, ${bytes} bytes gzip of at most ${most}`);
    if (bytes > most) problems.push(`${what} is ${bytes} bytes gzip, at most ${most} are allowed`);
  }
} finally {
  rmSync(out, { recursive: true });
}
for (const problem of problems) console.error(problem);
process.exitCode = problems.length ? 1 : 0;
