// Tests the page with a real head: head_test.mjs VOLADOR TUNE_SLEEP. Login link, live changes of a running experiment, kill and restart of
// the head.
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
const ended = async () => Number(/(\d+) of/.exec(await page.textContent(".page-head .summary .sub"))?.[1] ?? 0);

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
      await page.click(".page-head button >> text=Add config");
      await page.fill("dialog textarea", '{"quality": 7}');
      await page.click("dialog button.primary");
      await until("it is refused", async () => (await page.textContent("body")).includes("quality is 7"));
      await page.fill("dialog textarea", '{"quality": 0.125}');
      check((await page.textContent("dialog")).includes("volador tune add sleep"), "the same in a terminal");
      await page.click("dialog button.primary");
      await until("the dialog is gone", async () => (await page.locator("dialog").count()) === 0);
      const [first] = (await answer("/api/v1/trials")).rows;
      await go(`/experiments/${first.experiment}/trials/${first.id}`);
      await page.click(".page-head button >> text=Clone");
      await page.fill("dialog textarea", JSON.stringify({ ...first.config, quality: 0.375 }));
      check((await page.textContent("dialog")).includes(`--like=${first.id} '{"quality":0.375}'`), "the changes alone, in a terminal");
      await page.click("dialog button.primary");
      await until("the dialog is gone", async () => (await page.locator("dialog").count()) === 0);
      await go(`/experiments/${first.experiment}`);
      await page.click(".page-head button >> text=Resume");
      const clone = async () => (await answer("/api/v1/trials")).rows.find((row) => row.cloned_from === first.id);
      await until("the clone", clone);
      equal((await clone()).config.quality, 0.375, "its changed value");
      await until("it runs", async () => (await state()) === "running");
      await page.click(".page-head button >> text=Stop");
      check((await page.textContent("dialog")).includes("volador tune stop sleep"), "the same in a terminal");
      await page.click("dialog button.primary");
      await until("it has ended", async () => (await state()) === "interrupted");
      equal(await page.locator(".page-head button >> text=Pause").count(), 0, "buttons of one that has ended");
      program = spawn(tune_sleep, ["--num-samples=60", "--seconds=1", "--reports=9", "--scheduler=asha"], { env, cwd: home, stdio: "ignore" });
    },
    "events tell what became of the experiment, with links to it and to the program, whose page lists its run": async () => {
      await go("/events");
      // Filtered, since under load later events push a row out of the rendered part of the table.
      const says = async (text) => {
        await page.fill("[data-filter]", text.trim());
        await until(text, async () => (await page.locator("tbody").allTextContents()).join().includes(text));
      };
      await says("started by program tune_sleep");
      await says(" paused");
      await says(" resumed");
      await says("was stopped before its end");
      await until("the program of the second run", () => page.evaluate(async () => (await (await fetch("/api/v1/drivers")).json()).rows.length === 1));
      await go("/drivers");
      await page.click("tbody tr.opens:has-text('tune_sleep')");
      await until("its run", () => page.locator('section:has(h2:text("Experiments of this program")) tbody tr.opens').count().then((n) => n === 1));
      await until("the actors of its trials", async () => (await page.locator('section:has(h2:text("Actors of this program"))').textContent()).includes("TrialActor"));
    },
    "the audit log has the requests of the buttons with their outcomes; a program, its actors and the log name tokens that exist": async () => {
      const tokens = (await answer("/api/v1/tokens")).rows.map((row) => row.id);
      await go("/audit");
      const row = (text) => page.locator(`tbody tr:has-text("${text}")`);
      await until("the refused configuration", async () => (await row("quality is 7").first().textContent()).includes("refused"));
      await until("the clone", async () => (await row("Clone trial").first().textContent()).includes("done"));
      for (const text of ["Pause experiment", "Resume experiment", "Stop experiment"]) await until(text, () => row(text).count().then((n) => n > 0));
      check((await page.locator("tbody tr").first().textContent()).includes("Stop experiment"), "the newest is the first");
      const [entry] = (await answer("/api/v1/audit?page_size=1")).rows;
      check(tokens.includes(entry.by), `the token of an entry, ${entry.by}`);
      await page.fill("[data-filter]", "action:clone");
      await until("the clone alone", () => page.locator("tbody tr").count().then((n) => n === 1));
      await page.click("tbody tr td:nth-child(4) a");
      await until("its trial", async () => /trials/.test(await page.getAttribute("#main", "data-at")) && (await page.locator(".page-head .state").count()) === 1);
      const [driver] = (await answer("/api/v1/drivers")).rows;
      check(tokens.includes(driver.owner), `the owner of a program, ${driver.owner}`);
      await go("/drivers/" + driver.id);
      await page.click('.facts div:has(dt:text-is("Owner")) a');
      await until("its token", async () => (await page.textContent("h1")) === "Tokens" && (await page.locator("tbody tr").count()) === 1);
      await go("/actors/" + (await answer("/api/v1/actors")).rows.find((one) => one.driver_id === driver.id).id);
      await until("the owner of an actor", () => page.locator('.facts div:has(dt:text-is("Owner")) a').count().then((n) => n === 1));
    },
    "every page of the real cluster": async () => {
      const [experiment] = (await answer("/api/v1/experiments")).rows;
      const [trial] = (await answer(`/api/v1/experiments/${experiment.name}/trials`)).rows;
      const [actor] = (await answer("/api/v1/actors")).rows;
      const of = "/experiments/" + experiment.name;
      for (const path of ["/", of + "?tab=trials", of + "?tab=rungs", of + "?tab=parallel", of + "?tab=scatter", of + "?tab=contour", of + "?tab=metrics", `${of}/trials/${trial.id}`, "/nodes", "/nodes/petrel", "/actors?dead=1", "/actors/" + actor.id, "/queue", "/groups", "/objects", "/objects?tab=stores", "/logs?node=petrel", "/events", "/drivers", "/tokens", "/audit", "/job_queue", "/job_usage"]) {
        await go(path);
        await until(path + " is there", () => page.evaluate(() => document.querySelector("h1") && !document.querySelector(".loading")));
        const text = await page.textContent("main");
        check(!/undefined|NaN|Invalid Date/.test(text), `${path} says ${/.{0,40}(undefined|NaN|Invalid Date)/.exec(text)?.[0]}`);
      }
    },
    "a job is submitted by its form, runs with its log on the screen, and is stopped": async () => {
      program?.kill("SIGINT");
      await go("/jobs");
      await until("no job", async () => (await page.textContent("main")).includes("There are no jobs."));
      await page.click(".page-head button.primary");
      await page.fill("dialog textarea", "echo hello from the job; sleep 600");
      await page.fill('dialog label:has-text("Name") input', "greeting");
      await page.fill('dialog label:has-text("CPUs") input', "0.5");
      await until("the prediction", async () => /starts now|about/.test(await page.textContent("dialog .prediction")));
      await page.click("dialog button[type=submit]");
      const state = () => page.textContent(".page-head .state");
      await until("it runs", async () => (await page.textContent("h1")) === "greeting" && (await state()) === "running", 40_000);
      await until("its output", async () => (await page.locator(".log-text").allTextContents()).includes("hello from the job"), 30_000);
      await page.click(".page-head >> text=Stop");
      await page.click("dialog button.primary.danger");
      await until("it is stopped", async () => (await state()) === "stopped", 40_000);
      const text = await page.textContent("main");
      check(text.includes("stopped with token"), "the reason");
      check(!/undefined|NaN|Invalid Date/.test(text), "the page says what is not there");
      await go("/jobs?state=stopped");
      await until("it in the list", () => page.locator("tbody tr.opens:has-text('greeting')").count().then((n) => n === 1));
    },
    "the queue of jobs: a limit that the head refuses, one that it keeps, an array that is stopped as a batch": async () => {
      await go("/job_queue");
      await page.click("text=Add a project");
      const field = (label) => page.locator(`dialog .field:has(label:has-text("${label}"))`);
      await field("Name").locator("input").fill("vision");
      await field("Limit of CPUs").locator("input").fill("-1");
      await page.click("dialog button[type=submit]");
      await until("the refusal at its field", async () => (await field("Limit of CPUs").textContent()).includes("got cpus: -1"));
      await field("Limit of CPUs").locator("input").fill("1.5");
      await page.click("dialog button[type=submit]");
      await until("the limit", async () => (await page.locator("tbody tr:has-text('vision')").allTextContents()).join().includes("0 / 1.5"));
      const { settings } = await answer("/api/v1/job_queue");
      equal(JSON.stringify(settings.projects), JSON.stringify([{ name: "vision", weight: 1, limits: { cpus: 1.5 }, urgent_jobs: 0, note: "", members: [] }]), "what the head keeps");
      equal(cli("job", "queue", "--yaml"), await page.locator(".yaml pre").first().textContent(), "the same file from the command line");
      await go("/jobs");
      await page.click(".page-head button.primary");
      await page.fill("dialog textarea", "sleep 600");
      await field("Name").locator("input").fill("nap");
      await field("Project").locator("input").fill("vision");
      await field("CPUs").locator("input").fill("1");
      await page.click("dialog summary");
      await field("Size of the array").locator("input").fill("3");
      await page.click("dialog button[type=submit]");
      await until("its batch", async () => (await page.getAttribute("#main", "data-at")) === "/jobs?batch=nap" && (await page.locator("tbody tr.opens").count()) === 3);
      await until("one alone within the limit", async () => (await page.textContent(".batch [role=status]")) === "1 running, 2 queued", 40_000);
      await page.click(".batch button >> text=Stop 3");
      await page.click("dialog button.primary.danger");
      await until("all are stopped", async () => (await page.textContent(".batch [role=status]")) === "3 stopped", 40_000);
    },
    "a log of 1,000,000 lines on the node: its end, its first line, a search, the next error, a link": async () => {
      program?.kill("SIGINT");
      const printed = spawn(tune_sleep, ["--num-samples=1", "--seconds=600", "--reports=600", "--print=1000000"], { env, cwd: home, stdio: "ignore" });
      try {
        const trial = async () => (await answer("/api/v1/trials")).rows.find((row) => row.config.print === 1_000_000 && row.status === "running");
        await until("its trial", trial, 60_000);
        const of = "/logs?view=all&id=" + (await trial()).id;
        const shown = () => page.locator(".log-number").evaluateAll((all) => all.filter((one) => { const at = one.getBoundingClientRect(); return document.elementFromPoint(at.x + 2, at.y + at.height / 2) === one; }).map((one) => Number(one.textContent)));
        const at = async () => Number(await page.locator(".log-line.at .log-number").textContent().catch(() => ""));
        await go(of);
        await until("all lines, followed as they came", async () => (await page.textContent(".count")) === "1,000,000 lines" && (await shown()).includes(1_000_000), 90_000);
        check((await page.locator("*").count()) < 3000, "few elements");
        await page.locator(".log-scroll").evaluate((box) => { box.scrollTop = 0; });
        await until("the first line", async () => (await shown())[0] === 1 && (await page.textContent(".log-text")) === "step 1 of a run that prints a lot");
        await page.click("text=Next error");
        await until("an error", async () => (await at()) % 1000 === 0 && (await page.textContent(".log-line.at .log-text")).startsWith("error: batch"));
        await page.fill("[data-filter]", "BATCH 77");
        await until("what was found", async () => (await page.textContent(".count")) === "11 lines found", 30_000);
        await go(of + "&line=654321");
        await until("the line of the link", async () => (await at()) === 654_321 && (await page.textContent(".log-line.at .log-text")) === "step 654321 of a run that prints a lot");
      } finally {
        printed.kill("SIGKILL");
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
    "volador view: every chart and download of results on disk, and no page of a cluster": async () => {
      execFileSync(tune_sleep, ["--num-samples=20", "--seconds=0.3", "--reports=9", "--scheduler=asha", "--checkpoint-frequency=3"], { env: { ...env, XDG_STATE_HOME: join(home, "other") }, cwd: home, stdio: "ignore" });
      const view = spawn(volador, ["view", join(home, "volador_results"), "--no-browser", "--json"], { env, cwd: home, stdio: ["ignore", "pipe", "ignore"] });
      const context = await browser.newContext({ locale: "en-US", viewport: { width: 1440, height: 900 } });
      const before = page;
      try {
        let told = "";
        view.stdout.on("data", (some) => { told += some; });
        await until("its link", () => told.includes("/login"));
        page = await context.newPage();
        page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
        page.on("pageerror", (error) => wrong.push(String(error)));
        await page.goto(JSON.parse(told).dashboard);
        await until("the experiments", async () => (await page.textContent("h1")) === "Experiments");
        const run = (await answer("/api/v1/experiments")).rows.find((one) => one.trials_total === 20);
        const of = "/experiments/" + encodeURIComponent(run.name);
        for (const tab of ["curves", "rungs", "parallel", "scatter", "importance", "gantt"]) {
          await go(`${of}?tab=${tab}`);
          await until(tab, () => page.locator(tab === "importance" ? "main .columns .card" : "figure canvas").count().then((n) => n > 0));
          equal(await page.locator("main .empty").count(), 0, "empty places on " + tab);
        }
        await page.click(".menu button");
        await until("the journal", async () => (await page.textContent(".menu-list")).includes("Journal"));
        const links = await page.locator(".menu-list a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
        // The best one may have been stopped before its first checkpoint.
        let saved;
        for (const trial of (await answer(`/api/v1${of}/trials`)).rows) {
          const files = await answer(`/api/v1${of}/trials/${encodeURIComponent(trial.id)}/files`);
          if (JSON.stringify(files).includes("checkpoint_")) saved ??= trial.id;
        }
        await go(`${of}/trials/${saved}`);
        await until("its checkpoints", () => page.locator('.files a[href*="checkpoint_"]').count().then((n) => n > 0));
        links.push(...(await page.locator(".files a").evaluateAll((all) => all.map((one) => one.getAttribute("href")))));
        for (const word of ["trials.csv", "curves.csv", "format=yaml", "journal.vlj", "checkpoint_"]) check(links.some((one) => one.includes(word)), word + " can be downloaded");
        for (const href of links) {
          const [status, bytes] = await page.evaluate(async (from) => { const got = await fetch(from); return [got.status, (await got.arrayBuffer()).byteLength]; }, href);
          check(status === 200 && bytes > 0, `${href}: ${status}, ${bytes} bytes`);
        }
        await go("/nodes");
        await until("what there is instead", async () => (await page.textContent("main")).includes("there is no cluster"));
      } finally {
        page = before;
        await context.close();
        view.kill("SIGINT");
      }
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
