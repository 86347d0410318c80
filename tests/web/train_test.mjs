// Tests the view of a training run with a real head and real training: train_test.mjs VOLADOR TRAIN_DIGITS TRAIN_ELASTIC. Live curves, a rank
// that is killed, a group that grows and shrinks, the stop button, results on disk, and the same in a terminal.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { check, equal, open_browser, run, until } from "./harness.mjs";

const [volador, train_digits, train_elastic] = process.argv.slice(2);
const browser = await open_browser();
const home = mkdtempSync(join(tmpdir(), "volador-web-"));
const env = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CACHE_HOME: join(home, "cache"), XDG_CONFIG_HOME: join(home, "config"), XDG_RUNTIME_DIR: home };
const cli = (...parts) => execFileSync(volador, parts, { env, cwd: home, encoding: "utf8" });
const started = (program, ...parts) => spawn(program, parts, { env, cwd: home, stdio: "ignore" });

const wrong = [];
let page, digits, view;
const go = async (path) => {
  await page.evaluate((to) => { location.hash = to; }, path);
  await until("the page shows " + path, async () => (await page.getAttribute("#main", "data-at")) === path);
};
const tab = async (link) => {
  const context = await browser.newContext({ locale: "en-US", viewport: { width: 1440, height: 900 } });
  page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(String(error)));
  await page.goto(link);
  await page.waitForSelector("h1");
  return context;
};
const runs = () => JSON.parse(cli("train", "list", "--json")).runs;
const card = (title) => page.locator(`.card:has(h2:text-is("${title}"))`);
const state = () => page.textContent(".card[aria-label='Present state']");
const epochs = async () => Number((await page.locator('.tile:has(.tile-name:text-is("Epochs")) b').textContent()).replaceAll(",", ""));
const events = async () => (await card("Workers, faults and changes over time").locator("li > span").allTextContents()).reverse();

try {
  cli("start", "--head", "--cluster=page", "--name=petrel", "--port=0", "--num-cpus=4");
  await run("web_train", {
    "a run that trains is shown live: its curves grow, its ranks have node, device and process": async () => {
      await tab(cli("dashboard").trim());
      digits = started(train_digits, "2", "100000");
      await until("the run", () => runs().length === 1, 60_000);
      await go("/experiments/" + runs()[0].name);
      await until("two ranks", async () => (await state()).startsWith("2 ranks train on petrel."), 60_000);
      await until("reports", async () => (await epochs()) > 3);
      const before = await epochs();
      await until("more of them", async () => (await epochs()) > before);
      await until("curves", () => page.locator("figure canvas").count().then((n) => n >= 8));
      await card("loss").locator(".chart-tools .icon-button").click();
      const newest = async () => Number((await card("loss").locator("tbody th").first().textContent()).replaceAll(",", ""));
      equal((await card("loss").locator("thead th").allTextContents()).join(), "step,train_loss,val_loss", "lines of the chart");
      const step = await newest();
      await until("more points", async () => (await newest()) > step);
      equal((await events()).join(), "Training begins with 2 ranks", "events");
      const ranks = card("Ranks").locator("tbody tr.opens");
      equal(await ranks.count(), 2, "rows of ranks");
      check(/^0running petrel.*\d{2,}/.test((await ranks.first().textContent()).replace("petrel", " petrel")), await ranks.first().textContent());
      const shares = (await card("Time of a step, by part").locator(".legend b").allTextContents()).map((text) => Number.parseInt(text, 10));
      check(shares.length === 6 && Math.abs(shares.reduce((sum, one) => sum + one, 0) - 100) <= 3, "shares of a step: " + shares.join());
    },
    "a rank whose process is killed is a fault with its cause; a replacement trains on": async () => {
      const ranks = card("Ranks").locator("tbody tr.opens");
      process.kill(Number(await ranks.nth(1).locator("td").nth(4).textContent()), "SIGKILL");
      await until("the fault", async () => (await events()).some((text) => /^Rank 1 was lost: .*signal 9/.test(text)), 30_000);
      await until("the group is whole again", async () => (await state()).startsWith("2 ranks train on petrel.") && /^Training continues with 2 ranks/.test((await events()).pop()), 60_000);
      const before = await epochs();
      await until("more reports", async () => (await epochs()) > before, 30_000);
      await until("the fault in a terminal", () => cli("train", "show", runs()[0].directory).includes("rank 1 failed: "));
    },
    "the stop button ends the run": async () => {
      await page.click(".page-head button >> text=Stop");
      check((await page.textContent("dialog")).includes(`volador train stop ${runs()[0].name}`), "the same in a terminal");
      await page.click("dialog button.primary");
      await until("its end", async () => (await state()).startsWith("Stopped before its end"), 30_000);
      equal(runs()[0].state, "interrupted", "its state in a terminal");
    },
    "a group that grows and shrinks: each change with the number of ranks, and the worker that was lost": async () => {
      const elastic = started(train_elastic);
      await until("its end", () => elastic.exitCode !== null, 60_000);
      equal(elastic.exitCode, 0, "its exit code");
      const last = runs()[0];
      await go("/experiments/" + last.name);
      await until("that it has finished", async () => (await state()).startsWith("Finished after"));
      const seen = await events();
      check(/^Training begins with [2-4] ranks/.test(seen[0]) && seen.some((text) => /^Rank \d was lost: .*signal 9/.test(text)), seen.join("\n"));
      check(/^Training continues with [2-4] ranks/.test(seen[seen.length - 1]), seen.join("\n"));
      equal(await epochs(), 8, "epochs");
      const shown = cli("train", "show", last.directory);
      for (const text of ["finished", "epoch 8", "step 320", "The run trains with ", "signal 9", "communication"]) check(shown.includes(text), text + " in\n" + shown);
    },
    "results on disk have the same view": async () => {
      const before = (await events()).join("\n"), { directory, name } = runs()[0];
      await page.context().close();
      view = spawn(volador, ["view", directory, "--no-browser", "--json"], { env, cwd: home, stdio: ["ignore", "pipe", "ignore"] });
      let told = "";
      view.stdout.on("data", (some) => { told += some; });
      await until("its link", () => told.includes("/login"));
      await tab(JSON.parse(told).dashboard);
      await go("/experiments/" + name);
      await until("that it has finished", async () => (await state()).startsWith("Finished after"));
      await until("curves", () => page.locator("figure canvas").count().then((n) => n >= 8));
      equal((await events()).join("\n"), before, "events");
      equal(await epochs(), 8, "epochs");
    },
    "nothing was wrong on the way": () => equal(wrong.join("\n"), "", "noted"),
  });
} finally {
  digits?.kill("SIGKILL");
  view?.kill("SIGINT");
  await browser.close();
  try {
    cli("stop");
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
