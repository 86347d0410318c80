// A real cluster with experiments of configurations, for screenshots and tests of their pages: node dev/experiments.mjs VOLADOR prints a link.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const kConfig = `# Digits, for the page.
name: digits
labels: [baseline, sweep]
description: Learning rates of a small model
entrypoint: python3 train.py
hyperparameters:
  lr: {type: log, base: 10, minval: -4, maxval: -1}
  batch: {type: categorical, vals: [16, 32]}
searcher:
  name: random   # or grid
  metric: loss
  max_trials: 2
  max_length: {batches: 20}
resources:
  slots_per_trial: 0
max_restarts: 0
`;
// Reports by the HTTP API, so that no package is needed.
const kTrain = `import json, os, urllib.request, uuid

api = os.environ["DET_MASTER"] + "/api/v1/determined/trials/" + os.environ["VOLADOR_TRIAL"]
run = int(os.environ["VOLADOR_TRIAL_RUN"])


def call(path, **body):
    headers = {"Authorization": "Bearer " + os.environ["VOLADOR_TOKEN"], "Content-Type": "application/json"}
    request = urllib.request.Request(api + path, json.dumps({"run": run, **body}).encode(), headers)
    return json.load(urllib.request.urlopen(request))


rate = json.loads(os.environ["DET_HPARAMS"])["lr"]
while True:
    wanted = call("/operation:wait", wait_ms=30000)
    if wanted["no_more"]:
        break
    if not wanted["length"]:
        continue
    for part in (1, 2):
        times = {"dataloader_next": 0.004 / part, "to_device": 0.001, "train_batch": 0.02, "reduce_metrics": 0.001, "samples_per_second": 1230 * part}
        call("/metrics", group="timing", batches=wanted["length"] * part // 2, metrics=times)
    call("/metrics", group="validation", batches=wanted["length"], metrics={"loss": rate})
    call("/checkpoints", checkpoint={"id": str(uuid.uuid4()), "batches": wanted["length"], "resources": {"weights.bin": 4096}})
    call("/operation:complete", length=wanted["length"], metric=rate)
`;

// `more`: flags of volador start.
export function start(volador, ...more) {
  const home = mkdtempSync(join(tmpdir(), "volador-experiments-"));
  const env = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CACHE_HOME: join(home, "cache"), XDG_CONFIG_HOME: join(home, "config"), XDG_RUNTIME_DIR: home };
  const cli = (...parts) => execFileSync(volador, parts, { env, cwd: home, encoding: "utf8" });
  const code = join(home, "code");
  mkdirSync(join(code, "models"), { recursive: true });
  writeFileSync(join(code, "train.py"), kTrain);
  writeFileSync(join(code, "models/net.py"), "WIDTH = 32\nDEPTH = 3\n");
  writeFileSync(join(code, "weights.bin"), Buffer.from([0, 1, 2, 3]));
  cli("start", "--head", "--cluster=pages", "--name=petrel", "--port=0", "--num-cpus=2", ...more);
  return {
    home, code, cli, config: kConfig,
    link: () => cli("dashboard").trim(),
    // Returns the experiment's number.
    create(config, ...more) {
      writeFileSync(join(home, "config.yaml"), config);
      return Number(/\d+/.exec(cli("experiment", "create", "config.yaml", "code", ...more))[0]);
    },
    write: (name, text) => writeFileSync(join(code, name), text),
    close() {
      cli("stop");
      rmSync(home, { recursive: true, force: true });
    },
  };
}

// Tabs of a browser that are signed in to the cluster; `wrong` collects what their consoles say and requests to other hosts.
export function open_pages(browser, cluster) {
  const wrong = [];
  const until = async (what, holds) => {
    for (const end = Date.now() + 15_000; !(await holds()); await new Promise((done) => setTimeout(done, 50))) if (Date.now() > end) throw new Error("never: " + what);
  };
  async function tab(options = {}) {
    const context = await browser.newContext({ locale: "en-US", viewport: { width: 1440, height: 900 }, ...options });
    const opened = await context.newPage();
    opened.on("console", (message) => { if (["error", "warning"].includes(message.type()) && !/Failed to load resource/.test(message.text())) wrong.push(message.text()); });
    opened.on("pageerror", (error) => wrong.push(String(error)));
    const link = cluster.link();
    const url = new URL(link).origin;
    opened.on("request", (request) => { if (!request.url().startsWith(url) && !request.url().startsWith("blob:")) wrong.push("request to " + request.url()); });
    await opened.goto(link);
    await opened.waitForSelector("h1");
    return opened;
  }
  const go = async (path, at) => {
    await at.evaluate((to) => { location.hash = to; }, path);
    await until("the page shows " + path, async () => (await at.getAttribute("#main", "data-at")) === path);
  };
  // Findings of axe and strange words on these pages, in both languages, both themes and on a phone.
  async function axe(source, paths) {
    const found = [];
    for (const options of [{ colorScheme: "dark", locale: "zh-CN" }, { colorScheme: "light" }, { colorScheme: "dark", viewport: { width: 390, height: 844 } }]) {
      const other = await tab(options);
      for (const path of paths) {
        await go(path, other);
        await until(path + " is there", () => other.evaluate(() => document.querySelector("h1") && !document.querySelector(".loading") && !/Loading|The code arrives/.test(document.querySelector("main").textContent)));
        const where = `${path} ${JSON.stringify(options)}: `;
        if (/undefined|NaN|Invalid Date/.test(await other.textContent("main"))) found.push(where + "has such words");
        await other.evaluate(source());
        const named = await other.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`));
        found.push(...named.map((one) => where + one));
        if (!(await other.evaluate(() => document.documentElement.scrollWidth <= innerWidth))) found.push(where + "wider than the window");
        if (process.env.VOLADOR_WEB_SHOTS) await other.screenshot({ path: join(process.env.VOLADOR_WEB_SHOTS, `${path.replace(/[^a-z0-9]+/g, "_")}-${options.locale ? "zh" : "en"}-${options.colorScheme}${options.viewport ? "-phone" : ""}.png`) });
      }
      await other.context().close();
    }
    if (found.length) throw new Error(found.join("\n"));
  }
  return { tab, go, axe, wrong };
}

if (process.argv[1]?.endsWith("dev/experiments.mjs")) {
  const cluster = start(process.argv[2]);
  cluster.create(cluster.config);
  console.log(cluster.link());
  process.on("SIGINT", () => { cluster.close(); process.exit(0); });
  setInterval(() => {}, 60_000);
}
