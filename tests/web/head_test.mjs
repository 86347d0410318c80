// The page over a real head: head_test.mjs VOLADOR TUNE_SLEEP. A login link, a running experiment that changes on the screen, a head that
// is killed and started again.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { check, equal, open_browser, run, until } from "./harness.mjs";

const [volador, tune_sleep] = process.argv.slice(2);
const browser = await open_browser();
const home = mkdtempSync(join(tmpdir(), "volador-web-"));
const env = { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CACHE_HOME: join(home, "cache"), XDG_CONFIG_HOME: join(home, "config"), XDG_RUNTIME_DIR: home };
const cli = (...parts) => execFileSync(volador, parts, { env, cwd: home, encoding: "utf8" });
const start = () => cli("start", "--head", "--cluster=page", "--name=petrel", "--port=0", "--num-cpus=2");
const link = () => cli("dashboard").trim();
const head_pid = () => Number.parseInt(readFileSync(join(env.XDG_STATE_HOME, "volador/clusters/page/head/head.pid"), "utf8"), 10);

const wrong = [];
let page, program, url;
const go = async (path) => {
  await page.evaluate((to) => { location.hash = to; }, path);
  await until("the page shows " + path, async () => (await page.getAttribute("#main", "data-at")) === path);
};
const answer = (path) => page.evaluate(async (from) => (await fetch(from)).json(), path);
const ended = async () => Number(/(\d+) of/.exec(await page.textContent(".page-head .sub"))?.[1] ?? 0);

try {
  start();
  await run("web_head", {
    "a login link of the head leads to the overview": async () => {
      const context = await browser.newContext({ locale: "en-US", viewport: { width: 1440, height: 900 } });
      page = await context.newPage();
      page.on("console", (message) => { if (["error", "warning"].includes(message.type()) && !/ERR_CONNECTION|Failed to load resource/.test(message.text())) wrong.push(message.text()); });
      page.on("pageerror", (error) => wrong.push(String(error)));
      const once = link();
      url = new URL(once).origin;
      page.on("request", (request) => { if (!request.url().startsWith(url) && !request.url().startsWith(url.replace("http", "ws"))) wrong.push("request to " + request.url()); });
      await page.goto(once);
      await until("the overview", async () => (await page.textContent("h1")) === "page");
      await until("one node", async () => (await page.textContent(".tile")).includes("1"));
      const other = await (await browser.newContext({ locale: "en-US" })).newPage();
      await other.goto(once);
      await until("the used link is refused", async () => (await other.textContent("[role=alert]")).includes("used"));
      await other.context().close();
    },
    "a running experiment changes on the screen by itself": async () => {
      program = spawn(tune_sleep, ["--num-samples=60", "--seconds=1", "--reports=9", "--scheduler=asha"], { env, cwd: home, stdio: "ignore" });
      await go("/experiments");
      await until("the experiment", () => page.locator("tbody tr.opens").count().then((n) => n === 1));
      await page.click("tbody tr.opens");
      await until("its first trials ended", async () => (await ended().catch(() => 0)) > 0);
      const before = await ended();
      await until("more of them", async () => (await ended()) > before);
      await until("curves", () => page.locator("figure canvas").count().then((n) => n > 0));
    },
    "it pauses, goes on and stops by its buttons": async () => {
      const state = () => page.textContent(".page-head .state");
      await page.click(".page-head button >> text=Pause");
      await until("it is paused", async () => (await state()) === "paused");
      await page.click(".page-head button >> text=Resume");
      await until("it runs", async () => (await state()) === "running");
      await page.click(".page-head button >> text=Stop");
      check((await page.textContent("dialog")).includes("volador tune stop sleep"), "the same in a terminal");
      await page.click("dialog button.primary");
      await until("it has ended", async () => (await state()) === "interrupted");
      equal(await page.locator(".page-head button >> text=Pause").count(), 0, "buttons of one that has ended");
      program = spawn(tune_sleep, ["--num-samples=60", "--seconds=1", "--reports=9", "--scheduler=asha"], { env, cwd: home, stdio: "ignore" });
    },
    "every page of the real cluster": async () => {
      const [experiment] = (await answer("/api/v1/experiments")).rows;
      const [trial] = (await answer(`/api/v1/experiments/${experiment.name}/trials`)).rows;
      const [actor] = (await answer("/api/v1/actors")).rows;
      const of = "/experiments/" + experiment.name;
      for (const path of ["/", of + "?tab=trials", of + "?tab=rungs", of + "?tab=parallel", of + "?tab=scatter", `${of}/trials/${trial.id}`, "/nodes", "/nodes/petrel", "/actors?dead=1", "/actors/" + actor.id, "/queue", "/groups", "/objects", "/objects?tab=stores", "/logs?node=petrel", "/events", "/drivers", "/tokens"]) {
        await go(path);
        await until(path + " is there", () => page.evaluate(() => document.querySelector("h1") && !document.querySelector(".loading")));
        const text = await page.textContent("main");
        check(!/undefined|NaN|Invalid Date/.test(text), `${path} says ${/.{0,40}(undefined|NaN|Invalid Date)/.exec(text)?.[0]}`);
      }
    },
    "a head killed and started again: said, fresh, no row twice": async () => {
      await go("/nodes");
      process.kill(head_pid(), "SIGKILL");
      await until("the notice", () => page.isVisible(".notice"));
      start();
      await until("the notice is gone", async () => !(await page.isVisible(".notice")), 40_000);
      await until("the word about the restart", async () => (await page.textContent(".toasts")).includes("restarted"));
      await until("the node is alive again", () => page.locator("tbody tr.opens >> text=alive").count().then((n) => n === 1), 30_000);
      equal(await page.locator("tbody tr.opens").count(), 1, "rows of nodes");
      const { total } = await answer("/api/v1/experiments");
      await go("/experiments");
      await until("as many experiments as the head has", () => page.locator("tbody tr.opens").count().then((n) => n === total), 30_000);
    },
    "nothing was wrong on the way": () => equal(wrong.join("\n"), "", "noted"),
  });
} finally {
  program?.kill("SIGKILL");
  await browser.close();
  try {
    cli("stop");
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
