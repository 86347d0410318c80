// Runs named cases in order and reports their results; skips if the machine lacks a requirement.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";

const kSkip = 77;  // Exit status that CMakeLists.txt declares as skipped.
export const web = fileURLToPath(new URL("../../dashboard/web/", import.meta.url));
const require_web = createRequire(join(web, "package.json"));

export function skip(why) {
  console.log("skipped: " + why);
  process.exit(kSkip);
}

// Starts Chromium with playwright-core, or skips if one of them is missing.
export async function open_browser() {
  const path = [process.env.VOLADOR_CHROMIUM, "/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/google-chrome"].find((one) => one && existsSync(one));
  if (!path) skip("no Chromium; apt-get install chromium-headless-shell");
  if (!existsSync(join(web, "node_modules/playwright-core"))) skip("no playwright-core; npm ci in dashboard/web");
  const { chromium } = require_web("playwright-core");
  return chromium.launch({ executablePath: path, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], handleSIGTERM: false, handleSIGINT: false });
}
export const axe_source = () => require_web("axe-core").source;

export function check(holds, what) {
  if (!holds) throw new Error(what);
}
export const equal = (actual, expected, what) => check(Object.is(actual, expected), `${what}: ${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`);

// Waits until `holds()` is true; throws after `ms`.
export async function until(what, holds, ms = 15_000) {
  const end = Date.now() + ms;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error("never: " + what);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export async function run(suite, cases) {
  const results = [];
  const chosen = new RegExp(process.env.VOLADOR_WEB_CASES ?? "");
  for (const [name, body] of Object.entries(cases).filter(([one]) => chosen.test(one))) {
    const begin = Date.now();
    let failure = "";
    try {
      await body();
    } catch (error) {
      failure = error.stack ?? String(error);
    }
    results.push({ name, failure, ms: Date.now() - begin });
    console.log(`${failure ? "FAILED" : "ok"}  ${name} (${Date.now() - begin} ms)${failure ? "\n" + failure : ""}`);
  }
  report(suite, results);
  process.exitCode = results.some((one) => one.failure) ? 1 : 0;
}

// Writes an XML report beside those of the other test programs for scripts/count_tests.py.
function report(suite, results) {
  const folder = /^xml:(.*\/)$/.exec(process.env.GTEST_OUTPUT ?? "")?.[1];
  if (!folder) return;
  const text = (value) => value.replace(/[<>&"]/g, (letter) => `&#${letter.charCodeAt(0)};`).replace(/[^\x09\x0a\x20-\ufffd]/g, "?");
  mkdirSync(dirname(folder + "x"), { recursive: true });
  writeFileSync(join(folder, suite + ".xml"), `<testsuites><testsuite name="${suite}">` +
    results.map((one) => `<testcase name="${text(one.name)}" status="run" time="${one.ms / 1000}">${one.failure ? `<failure message="${text(one.failure)}"/>` : ""}</testcase>`).join("") + "</testsuite></testsuites>\n");
}
