// Measures the page with 10,000 trials, and with 500 of Katib: page_figures.mjs VOLADOR TUNE_SLEEP [--trials=10000] [--katib-trials=500] [--runs=5]. scripts/bench_page.sh describes the figures.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { check, open_browser, until, web } from "./harness.mjs";

const [volador, tune_sleep, ...flags] = process.argv.slice(2);
const option = (name, usual) => Number(flags.find((one) => one.startsWith(`--${name}=`))?.split("=")[1] ?? usual);
const trials = option("trials", 10_000), katib_trials = option("katib-trials", 500), runs = option("runs", 5);
const home = mkdtempSync(join(tmpdir(), "volador-page-"));
const env = { PATH: process.env.PATH, HOME: home, VOLADOR_HOME: join(home, "v") };
const cli = (...parts) => execFileSync(volador, parts, { env, cwd: home, encoding: "utf8" });
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const rounded = (value) => Math.round(value * 10) / 10;
const say = (name, unit, values) => console.log(JSON.stringify({ name, value: rounded(median(values)), unit, baseline: null, ratio: null, runs: values.map(rounded) }));

const kWheelPixels = 240;  // Per frame: seven rows, faster than a mouse wheel.
let browser;

// Opens a signed-in browser with an empty cache.
async function open(state) {
  const context = await browser.newContext({ locale: "en-US", viewport: { width: 1440, height: 900 }, storageState: state });
  const page = await context.newPage();
  let bytes = 0;
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  network.on("Network.loadingFinished", (event) => { bytes += event.encodedDataLength; });
  network.on("Network.webSocketFrameReceived", (event) => { bytes += event.response.payloadData.length; });
  return { context, page, bytes: () => bytes };
}

// Waits until the table counts this many trials and is painted.
const rows_of = (page, n) => page.waitForFunction((all) => document.querySelector(".count")?.textContent.includes(all) && document.querySelectorAll("tbody tr").length > Math.min(10, Number(all.replace(",", "")) - 1), n.toLocaleString("en-US"), { polling: "raf", timeout: 60_000 });

// Time from the request until the rows are there.
async function load(page, address, n) {
  const begin = performance.now();
  await page.goto(address, { waitUntil: "commit" });
  await rows_of(page, n);
  return performance.now() - begin;
}

// Time from a click on a page that is open until the rows of another are there.
async function visit(page, path, n) {
  await page.evaluate(() => { location.hash = "/experiments"; });
  await page.waitForFunction(() => document.querySelector("#main")?.getAttribute("data-at") === "/experiments" && document.querySelectorAll("tbody tr").length > 0);
  const begin = performance.now();
  await page.evaluate((to) => { location.hash = to; }, path);
  await rows_of(page, n);
  return performance.now() - begin;
}

// An experiment of Katib whose trials end at once; returns its name as an experiment of the cluster.
async function katib_experiment(page, n) {
  const first = readFileSync(join(web, "src/pages/katib_first.yaml"), "utf8");
  writeFileSync(join(home, "many.yaml"), first.replace("goal: 0.01", "goal: 0").replace("parallelTrialCount: 2", "parallelTrialCount: 16").replace("maxTrialCount: 6", `maxTrialCount: ${n}`)
    .replace(/command: .*/, 'command: [bash, -c, "echo loss=${trialParameters.learningRate}"]\n                resources: {limits: {cpu: "0.1"}}'));
  cli("apply", "-f", "many.yaml");
  const get = (to) => page.evaluate((from) => fetch(from).then((reply) => reply.json()), to);
  await until("all trials have ended", async () => (await get("/api/v1/katib/resources?kind=Experiment&name=random")).rows[0]?.object.status?.trialsSucceeded === n, 600_000);
  return (await get("/api/v1/experiments")).rows.map((one) => one.name).find((one) => one.startsWith("random-"));
}

// p95 of the time between frames while the table scrolls down and up by `pixels` per frame.
const scroll = (page, pixels) => page.evaluate(async (step) => {
  const box = document.querySelector(".scroll"), gaps = [];
  const frame = () => new Promise(requestAnimationFrame);
  box.scrollTop = 0;
  let last = await frame();
  for (let i = 1; i <= 240; i++) {
    box.scrollTop = step * (120 - Math.abs(i - 120));
    const now = await frame();
    gaps.push(now - last);
    last = now;
  }
  return gaps.sort((a, b) => a - b)[Math.floor(gaps.length * 0.95)];
}, pixels);

// Time from the last letter of a filter until the rows change.
const filter = (page, text) => page.evaluate(async (to) => {
  const box = document.querySelector("[data-filter]"), before = document.querySelector(".count").textContent;
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  const begin = performance.now();
  box.value = to;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  while (document.querySelector(".count").textContent === before) await frame();
  await frame();
  return performance.now() - begin;
}, text);

try {
  browser = await open_browser();
  cli("start", "--head", "--cluster=page", "--name=petrel", "--port=0");
  const tuned = spawnSync(tune_sleep, [`--num-samples=${trials}`, "--seconds=0", "--reuse-actors=1"], { env, cwd: home, stdio: "ignore" });
  check(tuned.status === 0, "tune_sleep failed");
  const link = cli("dashboard").trim(), url = new URL(link).origin;
  const first = await browser.newContext({ locale: "en-US" });
  const signed = await first.newPage();
  await signed.goto(link);
  await until("signed in", async () => (await signed.textContent("h1").catch(() => "")) === "page");
  const { rows: [experiment] } = await signed.evaluate(async () => (await fetch("/api/v1/experiments")).json());
  const path = `/#/experiments/${encodeURIComponent(experiment.name)}?tab=trials`;
  const katib = `/experiments/${await katib_experiment(signed, katib_trials)}`;
  const state = await first.storageState();
  await first.close();

  const loads = [], katib_loads = [], katib_visits = [], trial_loads = [], trial_visits = [], bytes = [], frames = [], drags = [], filters = [];
  for (let run = 0; run < runs; run++) {
    const one = await open(state);
    loads.push(await load(one.page, url + path, trials));
    bytes.push(one.bytes());
    frames.push(await scroll(one.page, kWheelPixels));
    drags.push(await scroll(one.page, await one.page.evaluate(() => document.querySelector(".scroll").scrollHeight / 120)));
    filters.push(await filter(one.page, `quality>0.${5 + run % 5}`));
    await one.context.close();
    for (const [tab, cold, warm] of [["katib", katib_loads, katib_visits], ["trials", trial_loads, trial_visits]]) {
      const other = await open(state);
      cold.push(await load(other.page, `${url}/#${katib}?tab=${tab}`, katib_trials));
      warm.push(await visit(other.page, `${katib}?tab=${tab}`, katib_trials));
      await other.context.close();
    }
  }
  say("page_katib_load", "ms", katib_loads);
  say("page_katib_visit", "ms", katib_visits);
  say("page_katib_trials_load", "ms", trial_loads);
  say("page_katib_trials_visit", "ms", trial_visits);
  say("page_load", "ms", loads);
  say("page_bytes", "bytes", bytes);
  say("page_scroll", "ms", frames);
  say("page_scroll_drag", "ms", drags);
  say("page_filter", "ms", filters);
} finally {
  await browser?.close();
  try {
    cli("stop");
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
