// Tests the page in Chromium with a simulated cluster (dashboard/web/dev): every page in both languages and themes, live changes, reconnects,
// 10,000 trials, keys, phone width. Fails on console errors, requests to other hosts and axe violations.
// VOLADOR_WEB_CASES=REGEX selects cases; VOLADOR_WEB_SHOTS=FOLDER saves a screenshot of every page.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { axe_source, check, equal, until } from "./harness.mjs";
import { over_made_up_cluster, settled } from "./tab.mjs";

const { browser, start, still, tab, run_all } = await over_made_up_cluster();
const shots = process.env.VOLADOR_WEB_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const actor = still.world.tables.actors.keys().next().value;
const trials = [...still.world.trials.get("digits").values()];
const stopped = trials.find((row) => row.status === "stopped");
const [training] = still.world.trainings;
// Page and its heading in English and Chinese.
const kPages = {
  "/": ["heron", "heron"],
  "/experiments": ["Experiments", "实验"],
  "/experiments/digits": ["digits", "digits"],
  "/experiments/digits?tab=trials": ["digits", "digits"],
  "/experiments/digits?tab=rungs": ["digits", "digits"],
  "/experiments/digits?tab=parallel": ["digits", "digits"],
  "/experiments/digits?tab=scatter": ["digits", "digits"],
  "/experiments/digits?tab=importance": ["digits", "digits"],
  "/experiments/digits?tab=gantt": ["digits", "digits"],
  "/experiments/digits?along=time": ["digits", "digits"],
  "/experiments/digits?tab=history": ["digits", "digits"],
  "/experiments/digits?tab=pareto": ["digits", "digits"],
  "/experiments/digits?tab=slice": ["digits", "digits"],
  "/experiments/digits?tab=metrics": ["digits", "digits"],
  "/experiments/digits?tab=contour": ["digits", "digits"],
  "/experiments/tokenizer-baseline": ["tokenizer-baseline", "tokenizer-baseline"],
  [`/experiments/${training.name}`]: [training.name, training.name],
  [`/experiments/${training.name}?along=time&y=log`]: [training.name, training.name],
  [`/experiments/${training.name}/trials/${training.rank_rows[1].id}`]: ["rank 1", "rank 1"],
  "/experiments/digits?tab=edf&split=activation": ["digits", "digits"],
  "/studies": ["Studies", "共享搜索"],
  "/jobs": ["Jobs", "作业"],
  "/job_queue": ["Job queue", "作业队列"],
  "/job_usage": ["Usage", "用量"],
  "/jobs/job-2": ["imagenet", "imagenet"],
  "/jobs/job-7": ["finetune", "finetune"],
  "/jobs/job-8": ["evaluate", "evaluate"],
  "/studies/boosting": ["boosting", "boosting"],
  "/studies/boosting?tab=trials": ["boosting", "boosting"],
  [`/experiments/digits/compare?of=${trials.slice(0, 4).map((one) => one.id).join("%2C")}`]: ["Comparison of trials", "试验对比"],
  "/compare?of=digits%0Aresnet-width-sweep": ["Comparison of experiments", "实验对比"],
  [`/experiments/digits/trials/${stopped.id}`]: [stopped.id, stopped.id],
  "/nodes": ["Nodes", "节点"],
  "/nodes/osprey": ["osprey", "osprey"],
  "/nodes/osprey?range=hour": ["osprey", "osprey"],
  "/actors": ["Actors", "Actor"],
  [`/actors/${actor}`]: [null, null],
  "/tasks": ["Tasks", "任务"],
  "/queue?id=q1a2b3c4d5e6f702": ["Queue", "队列"],
  "/groups": ["Placement groups", "放置组"],
  "/groups/a71c0f2255d04e10": ["serving", "serving"],
  "/groups/d9914b7c02e6f5a8": ["d9914b7c", "d9914b7c"],
  "/objects": ["Objects", "对象"],
  "/objects?tab=objects": ["Objects", "对象"],
  "/objects?tab=stores": ["Objects", "对象"],
  "/logs?node=heron": ["Logs", "日志"],
  "/logs?node=heron&view=all&line=500000": ["Logs", "日志"],
  "/events": ["Events", "事件"],
  "/drivers": ["Drivers", "Driver 程序"],
  "/drivers/4f1c22aa90b1": ["tune_digits", "tune_digits"],
  "/tokens": ["Tokens", "令牌"],
  "/audit": ["Audit log", "审计日志"],
};

async function tour(theme, lang) {
  const { page, wrong, go, close } = await tab({ theme, lang });
  for (const [path, titles] of Object.entries(kPages)) {
    await go(path);
    const title = titles[lang === "en-US" ? 0 : 1];
    if (title) await until(`${path} says ${title}`, async () => (await page.textContent("h1")) === title);
    await settled(page);
    check(!(await page.textContent("body")).includes("undefined"), `${path} says “undefined”`);
    if (shots) await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 250)));  // Waits until charts are drawn.
    if (shots) await page.screenshot({ path: join(shots, `${path.replace(/[^\w]+/g, "_")}-${theme}-${lang}.png`) });
  }
  equal(await page.getAttribute("html", "lang"), lang === "en-US" ? "en" : "zh-CN", "language of the document");
  equal(await page.getAttribute("html", "data-theme"), theme, "theme");
  equal(wrong.join("\n"), "", "noted");
  await close();
}

async function accessible(theme) {
  const { page, go, close } = await tab({ theme });
  const found = [];
  for (const path of Object.keys(kPages)) {
    await go(path);
    await settled(page);
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe_source());
    const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
    for (const one of violations) found.push(`${path}: ${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target + " " + (node.any[0]?.message ?? "")).join("; ")}`);
  }
  await close();
  equal(found.join("\n"), "", "axe");
}

await run_all("web_page", {
  "a wrong token is refused with what to do, a right one leads in": async () => {
    const page = await (await browser.newContext({ locale: "en-US" })).newPage();
    await page.goto(still.url + "/#/nodes");
    await page.fill("input[name=token]", "vt1.wrong");
    await page.press("input[name=token]", "Enter");
    await until("the refusal", async () => (await page.textContent("[role=alert]")).includes("volador token create"));
    await page.fill("input[name=token]", "vt1.dev");
    await page.press("input[name=token]", "Enter");
    await until("the page that the link named", async () => (await page.textContent("h1")) === "Nodes");
    await page.click("button[aria-label='Sign out']");
    await page.waitForSelector("input[name=token]");
    await page.context().close();
  },
  "a wrong password is refused with what to do, a right one leads in and shows who is signed in": async () => {
    const page = await (await browser.newContext({ locale: "en-US" })).newPage();
    await page.goto(still.url + "/");
    await page.fill("input[name=user]", "mei");
    await page.fill("input[name=password]", "wrong horse");
    await page.press("input[name=password]", "Enter");
    await until("the refusal", async () => (await page.textContent("[role=alert]")).includes("volador user password"));
    await page.fill("input[name=password]", "correct horse");
    await page.press("input[name=password]", "Enter");
    await until("the user's name", async () => (await page.textContent(".who")).includes("mei"));
    await page.context().close();
  },
  "a login link leads in once; an old one says how to get another": async () => {
    const page = await (await browser.newContext({ locale: "en-US" })).newPage();
    await page.goto(still.url + "/login?key=old");
    await until("the notice", async () => (await page.textContent("[role=alert]")).includes("volador dashboard"));
    await page.goto(still.url + "/login?key=once");
    await until("the overview", async () => (await page.textContent("h1")) === "heron");
    await page.context().close();
  },
  "every page, light, English": () => tour("light", "en-US"),
  "every page, dark, English": () => tour("dark", "en-US"),
  "every page, light, Chinese": () => tour("light", "zh-CN"),
  "every page, dark, Chinese": () => tour("dark", "zh-CN"),
  "axe finds nothing in the light theme": () => accessible("light"),
  "axe finds nothing in the dark theme": () => accessible("dark"),
  "nothing is wider than a phone": async () => {
    const { page, go, close } = await tab({ phone: true });
    for (const path of Object.keys(kPages)) {
      await go(path);
      await settled(page);
      const cut = await page.locator("td.right, td:has(> .state)").evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent));
      equal(cut.join(), "", "numbers and states cut on " + path);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(over <= 0, `${path} is ${over} px too wide`);
    }
    await close();
  },
  "language and theme chosen by hand outlive a reload": async () => {
    const { page, close } = await tab();
    await page.click("button[aria-label='Dark']");
    await page.click("button[lang=zh]");
    await page.reload();
    await until("Chinese", async () => (await page.textContent("nav[aria-label='页面']")).includes("实验"));
    equal(await page.getAttribute("html", "data-theme"), "dark", "theme");
    await close();
  },
  "a change in the cluster is on the screen by itself": async () => {
    const { page, go, close } = await tab();
    await go("/experiments/digits?tab=trials&q=" + stopped.id);
    await page.waitForSelector("tbody tr.opens");
    const row = { ...still.world.trials.get("digits").get(stopped.id), step: 12345 };
    still.world.trials.get("digits").set(row.id, row);
    still.world.emit("trials", { experiment: "digits" }, [row]);
    await until("the new step", async () => (await page.textContent("tbody tr.opens")).includes("12,345"));
    await close();
  },
  "a lost head is said; when another one answers, all is fresh and said so": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, go, close } = await tab({ server });
    await go("/nodes");
    await page.waitForSelector("text=kestrel");
    server.away();
    await until("the notice", async () => (await page.textContent(".notice").catch(() => "")).includes("does not answer"));
    check(await page.isVisible("text=kestrel"), "what was there stays on the screen");
    server.world.tables.nodes.delete("n-kestrel");
    server.back();
    await page.click(".notice button").catch(() => {});
    await until("the notice is gone", async () => !(await page.isVisible(".notice")));
    await until("the fresh rows", async () => !(await page.isVisible("td >> text=kestrel")));
    await until("the word about the restart", async () => (await page.textContent(".toasts")).includes("restarted"));
    equal(await page.locator("td >> text=osprey").count(), 1, "rows of osprey");
    await close();
    await server.close();
  },
  "10,000 trials: right rows, few elements, filtered, to the last row": async () => {
    const server = await start({ trials: 10_000, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/experiments/digits?tab=trials");
    await until("all rows", async () => (await page.textContent(".count").catch(() => "")).includes("10,000"));
    const elements = await page.evaluate(() => document.querySelectorAll("*").length);
    check(elements < 3000, `${elements} elements in the page`);
    await page.fill("[data-filter]", "status:failed");
    const failed = [...server.world.trials.get("digits").values()].filter((row) => row.status === "failed").length;
    await until("the failed ones", async () => (await page.textContent(".count")).startsWith(failed.toLocaleString("en") + " of"));
    await page.fill("[data-filter]", "");
    await page.evaluate(() => { const box = document.querySelector(".scroll"); box.scrollTop = box.scrollHeight; });
    await until("the last row", () => page.locator('tr[aria-rowindex="10001"]').count().then((n) => n === 1));
    for (const view of ["curves", "rungs", "parallel", "scatter"]) {
      await go("/experiments/digits?tab=" + view);
      await until(view, () => page.locator("figure canvas").count().then((n) => n > 0));
    }
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "a table that is dragged far shows other rows in the same elements": async () => {
    const server = await start({ trials: 2000, still: true });
    const { page, go, close } = await tab({ server });
    await go("/experiments/digits?tab=trials");
    await until("rows", () => page.locator("tbody tr.opens").count().then((n) => n > 10));
    await page.evaluate(() => { for (const row of document.querySelectorAll("tbody tr.opens")) row.shown_first = row.textContent; });
    await page.locator(".scroll").evaluate((box) => { box.scrollTop = box.scrollHeight / 2; });
    await until("the middle", async () => Math.abs(Number(await page.locator("tbody tr.opens").first().getAttribute("aria-rowindex")) - 1000) < 40);
    const [reused, all, apart] = await page.evaluate(() => {
      const rows = [...document.querySelectorAll("tbody tr.opens")];
      return [rows.filter((row) => row.shown_first && row.shown_first !== row.textContent).length, rows.length, new Set(rows.map((row) => row.querySelector("a").textContent)).size];
    });
    check(reused > 15, `${reused} of ${all} elements were taken over`);
    equal(apart, all, "different trials");
    await close();
    await server.close();
  },
  "each toggle of each chart can be pressed, and a link may name it": async () => {
    const { page, wrong, go, close } = await tab();
    const charts = ["/experiments/digits", "/experiments/digits?along=time", "/experiments/digits?tab=rungs", "/experiments/digits?tab=parallel", "/experiments/digits?tab=scatter", "/experiments/digits?tab=importance",
      "/experiments/digits?tab=gantt", `/experiments/${training.name}`, `/experiments/digits/trials/${stopped.id}`, "/compare?of=digits%0Aresnet-width-sweep", "/nodes/osprey", `/actors/${actor}`];
    let pressed = 0;
    for (const path of charts) {
      await go(path);
      await settled(page);
      for (const more of await page.locator("#main .popover-button").all()) await more.click();
      for (let i = 0; i < (await page.locator("#main figure .toggle, #main .card .toggle").count()); i++) {
        const toggle = page.locator("#main figure .toggle, #main .card .toggle").nth(i);
        for (const now of [await toggle.getAttribute("aria-pressed"), null]) {
          await toggle.click();
          pressed++;
          await until(`${path}: ${await toggle.textContent()} was pressed`, async () => (await toggle.getAttribute("aria-pressed")) !== now);
          check((await page.locator("figure canvas, figure table, .importance, .card").count()) > 0, path + " keeps its chart");
        }
      }
    }
    check(pressed >= 12, `only ${pressed} toggles were found`);
    const fresh = await tab();
    for (const path of ["/experiments/digits?y=log", "/experiments/digits?x=log&y=log", `/experiments/digits/trials/${stopped.id}?y=log`, "/compare?of=digits%0Aresnet-width-sweep&y=log"]) {
      await fresh.go(path);
      await fresh.page.reload();
      await until(path + " draws a chart", () => fresh.page.locator("figure canvas").count().then((n) => n > 0));
    }
    equal(fresh.wrong.concat(wrong).join("\n"), "", "noted");
    await fresh.close();
    await close();
  },
  "the table and the curves stay subscribed when trials become so many that they are drawn less often": async () => {
    const server = await start({ trials: 90, still: true });
    const { page, go, close } = await tab({ server });
    const grow = (n) => {
      const [first] = server.world.trials.get("digits").values();
      const rows = Array.from({ length: n }, (_, i) => ({ ...first, id: `grown-${server.world.trials.get("digits").size}-${i}` }));
      for (const row of rows) server.world.trials.get("digits").set(row.id, row);
      server.world.emit("trials", { experiment: "digits" }, rows);
      const experiment = { ...server.world.tables.experiments.get("digits"), trials_total: server.world.trials.get("digits").size };
      server.world.put("experiments", experiment);
    };
    const lines_of = () => server.asked.filter((one) => one.op === "unsub").length;
    for (const path of ["/experiments/digits", "/experiments/digits?tab=trials"]) {
      await go(path);
      await settled(page);
      await new Promise((done) => setTimeout(done, 3500));  // The subscriptions of the previous page have ended by then.
      const before = lines_of();
      grow(path.includes("trials") ? 3000 : 50);
      await until("the new trials", async () => (await page.textContent("main")).includes(server.world.trials.get("digits").size.toLocaleString("en")));
      await new Promise((done) => setTimeout(done, 3500));  // Longer than an unused subscription stays.
      equal(lines_of(), before, "subscriptions that were ended on " + path);
      const row = { ...server.world.trials.get("digits").get(stopped.id), ...[...server.world.trials.get("digits").values()][0], step: 54_321 };
      server.world.trials.get("digits").set(row.id, row);
      server.world.emit("trials", { experiment: "digits" }, [row]);
      if (path.includes("trials")) {
        await page.fill("[data-filter]", row.id);
        await until("a change afterwards", async () => (await page.textContent("tbody")).includes("54,321"));
      }
    }
    await close();
    await server.close();
  },
  "of 10,000 trials only the curves that are shown are sent, and others when they are chosen": async () => {
    const server = await start({ trials: 3000, still: true });
    const { page, go, close } = await tab({ server });
    await go("/experiments/digits");
    await until("curves", () => page.locator("figure canvas").count().then((n) => n > 0));
    const subscribed = server.asked.find((one) => one.op === "sub" && one.topic === "curves");
    check(subscribed.trials.length <= 200, `${subscribed.trials.length} curves were asked for`);
    await page.click(".popover-button");
    await page.selectOption("label.select:has-text('Trials shown') select", "50");
    await until("fewer", async () => server.asked.some((one) => one.op === "want" && one.id === subscribed.id && one.trials.length <= 50));
    await close();
    await server.close();
  },
  "the queue names what blocks, folds equal requests, and leads to what it names": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/queue");
    await until("one row for 57 trials", async () => (await page.textContent("tbody")).includes("57 trials of resnet-width-sweep"));
    equal(await page.locator("tbody tr.opens").count(), 5, "rows for 61 requests");
    check(/^1big-trainersplacement group/.test(await page.locator("tbody tr.opens").first().textContent()), "the group is the first");
    await page.click("tbody tr.opens:has-text('57 trials') a >> text=big-trainers");
    await until("the group that blocks", async () => (await page.evaluate(() => location.hash)).startsWith("#/groups/d9914b7c02e6f5a8"));
    await page.goBack();
    await page.click("tbody tr.opens:has-text('57 trials')");
    await until("its members", () => page.locator(".split .card .plain-list li").count().then((n) => n === 57));
    await go("/experiments/resnet-width-sweep");
    await until("the experiment says it too", async () => (await page.textContent(".page-head")).includes("57 trials wait: node osprey reserves"));
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "back leads to where the list was; the heading has the focus after a change of page; a note takes it at once": async () => {
    const server = await start({ trials: 400, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/experiments/digits?tab=trials");
    await page.waitForSelector("tbody tr.opens");
    await page.locator(".scroll").evaluate((box) => { box.scrollTop = 2000; });
    await until("rows further down", async () => Number(await page.locator("tbody tr.opens").first().getAttribute("aria-rowindex")) > 40);
    await page.locator("tbody tr.opens").nth(12).click();
    await until("a trial", async () => (await page.evaluate(() => location.hash)).includes("/trials/"));
    await until("the focus", () => page.evaluate(() => document.activeElement?.tagName === "H1"));
    await page.goBack();
    await until("the place in the list", async () => Math.abs((await page.locator(".scroll").evaluate((box) => box.scrollTop).catch(() => 0)) - 2000) < 5);
    await go("/experiments/digits");
    await page.click("text=Edit the note");
    await page.keyboard.type("!");
    await until("what was typed", async () => (await page.inputValue("textarea")).includes("!"));
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "columns of trials are hidden and shown, legends hide groups, chosen trials stand out in the curves": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/experiments/digits?tab=trials");
    await page.waitForSelector("tbody tr.opens");
    check((await page.locator("th").allTextContents()).includes("momentum"), "a column");
    await page.click("button >> text=Columns");
    await page.click("[role=menuitemcheckbox] >> text=momentum");
    await until("it is gone", async () => !(await page.locator("th").allTextContents()).includes("momentum"));
    check((await page.evaluate(() => location.hash)).includes("hide=momentum"), "the address says so");
    await page.keyboard.press("Escape");
    await page.click("tbody tr.opens:nth-of-type(1) td.pick");
    await page.click("tbody tr.opens:nth-of-type(2) td.pick");
    await page.click("button >> text=Highlight in curves");
    await until("the curves", async () => (await page.textContent("main")).includes("2 highlighted"));
    await until("a legend", () => page.locator(".legend-entry").count().then((n) => n > 1));
    await page.click(".legend-entry >> nth=0");
    await until("it is off", async () => (await page.getAttribute(".legend-entry >> nth=0", "aria-pressed")) === "false");
    check((await page.evaluate(() => location.hash)).includes("off="), "the address says so");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "an actor is found and listed by its name": async () => {
    const { page, close, go } = await tab();
    const named = [...still.world.tables.actors.values()].find((one) => one.name && one.state !== "dead");
    await go("/actors?q=" + encodeURIComponent(named.name));
    await until("its row", async () => (await page.locator("tbody tr.opens .row-link").allTextContents()).includes(named.name));
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog[open] input:focus");
    await page.keyboard.type(named.name);
    await until("its entry", async () => ((await page.locator("[role=option][aria-selected=true]").textContent().catch(() => "")) ?? "").includes(named.name), 4000).catch(async () => { throw new Error(await page.locator(".palette-body").innerText()); });
    await page.keyboard.press("Enter");
    await until("its page", async () => (await page.textContent("h1")) === named.name);
    await close();
  },
  "the page says how old its data are when the head does not say that it has everything": async () => {
    const server = await start({ trials: 40, heartbeat: 200 });
    const { page, close } = await tab({ server });
    const badge = () => page.textContent(".side-bar .link-state");
    await until("it is live", async () => (await badge()) === "Live");
    check((await page.getAttribute(".side-bar .link-state", "title")).includes("data as of"), "the time of the data");
    server.set_silent(true);
    await until("it is behind, though deltas come", async () => /^\d+ s behind$/.test(await badge()));
    server.set_silent(false);
    await until("it is live again", async () => (await badge()) === "Live");
    server.away();
    await until("the age in the notice", async () => /are \d+ s old/.test(await page.textContent(".notice").catch(() => "")), 20_000);
    await close();
    await server.close();
  },
  "keys: palette, pages, filter, rows": async () => {
    const { page, close } = await tab();
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog[open] input:focus");  // Keys pressed before the input has the focus would be lost.
    await page.keyboard.type("resnet");
    // Enter runs the first entry, and the cluster's rows may arrive after the typing.
    await until("its entry first", async () => ((await page.locator('[role=option][aria-selected=true]').textContent().catch(() => "")) ?? "").includes("resnet-width-sweep"));
    await page.keyboard.press("Enter");
    await until("the experiment", async () => (await page.textContent("h1")) === "resnet-width-sweep");
    await page.keyboard.press("g");
    await page.keyboard.press("n");
    await until("the nodes", async () => (await page.textContent("h1")) === "Nodes");
    await page.waitForSelector("tbody tr.opens");
    await page.keyboard.press("/");
    await page.waitForSelector("input:focus");
    await page.keyboard.type("osp");
    await until("one row", async () => (await page.textContent(".count")).startsWith("1 of"));
    check((await page.evaluate(() => location.hash)).includes("q=osp"), "the filter is in the address");
    await page.focus(".scroll");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await until("the node", async () => (await page.textContent("h1")) === "osprey");
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open] kbd");
    await page.keyboard.press("Escape");
    await until("no dialog", async () => !(await page.isVisible("dialog")));
    await close();
  },
  "a viewer drains nothing and sees no tokens; an operator drains and undoes": async () => {
    const viewer = await tab({ token: "vt1.viewer" });
    await viewer.go("/nodes/kestrel");
    await viewer.page.waitForSelector("text=CPU cores busy");
    equal(await viewer.page.locator("button >> text=Drain").count(), 0, "buttons to drain");
    equal(await viewer.page.locator("nav >> text=Tokens").count(), 0, "ways to the tokens");
    await viewer.close();
    const operator = await tab({ token: "vt1.operator" });
    await operator.go("/nodes/kestrel");
    await operator.page.click("button >> text=Drain");
    await operator.page.click("dialog button.primary");
    await operator.page.waitForSelector(".page-head .state >> text=draining");
    await operator.page.click("button >> text=Stop draining");
    await operator.page.waitForSelector(".page-head .state >> text=alive");
    await operator.close();
  },
  "operators see requests, tokens and outcomes in the audit log, newest first; new entries appear by themselves": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server, token: "vt1.operator" });
    await page.keyboard.press("g");
    await page.keyboard.press("u");
    await until("the page by its key", async () => (await page.textContent("h1")) === "Audit log");
    await page.waitForSelector("tbody tr");
    equal(await page.title(), "Audit log · Volador", "title");
    equal(await page.locator("nav[aria-label=Pages] a").evaluateAll((all) => all.slice(-2).map((one) => one.textContent).join()), "Tokens,Audit log", "the last pages of the navigation");
    const times = await page.locator("tbody time").evaluateAll((all) => all.map((one) => one.getAttribute("datetime")));
    equal(times.join(), [...times].sort().reverse().join(), "the order of times");
    equal(times.length, server.audit.length, "rows");
    const row = (text) => page.locator(`tbody tr:has-text("${text}")`);
    equal(await row("sandpiperr").locator(".state.tone-bad").textContent(), "refused", "outcome of a refused request");
    equal(await row("sandpiperr").locator("td:nth-child(4) a").count(), 0, "links to a node that does not exist");
    await page.fill("[data-filter]", "outcome:kUnavailable");
    await until("failed requests alone", () => page.locator("tbody tr").count().then((n) => n === 2));
    await page.fill("[data-filter]", "");
    await until("all rows", () => page.locator("tbody tr").count().then((n) => n === server.audit.length));
    const before = server.audit.length;
    equal(await page.evaluate(async () => (await fetch("/api/v1/nodes/kestrel:drain", { method: "POST", headers: { "X-Volador-Request": "1", "Content-Type": "application/json" }, body: "{}" })).status), 200, "status of a drain");
    await until("the new entry", () => page.locator("tbody tr").count().then((n) => n === before + 1));
    check(/Drain nodekestreldone$/.test(await page.locator("tbody tr").first().textContent()), "the new entry is the first");
    await page.click("tbody tr >> nth=0 >> a >> text=kestrel");
    await until("the node", async () => (await page.textContent("h1")) === "kestrel");
    const leads = async (text, href) => {
      await go("/audit");
      await page.waitForSelector("tbody tr");
      equal(await row(text).first().locator("td:nth-child(4) a").getAttribute("href"), href, "link of " + text);
    };
    const embedder = [...server.world.tables.actors.values()].find((one) => one.name === "embedder");
    const trial = [...server.world.trials.get("digits").values()].find((one) => one.status === "stopped");
    await leads("embedder", "#/actors/" + embedder.id);
    await leads("Pause experiment", "#/experiments/digits");
    await leads("Clone trial", "#/experiments/digits/trials/" + trial.id);
    await leads("Revoke token", "#/tokens?q=t-1a0b9c");
    await page.focus(".scroll");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await until("the object of the first row by keys", async () => (await page.textContent("h1")) === "kestrel");
    await go("/audit");
    await page.click("tbody tr >> nth=0 >> a >> text=t-7f21c0");
    await until("its token", async () => (await page.textContent("h1")) === "Tokens" && (await page.locator("tbody tr").count()) === 1);
    equal(wrong.join("\n"), "", "noted");
    await close();
    const viewer = await tab({ server, token: "vt1.viewer" });
    equal(await viewer.page.locator("nav >> text=Audit log").count(), 0, "ways to the audit log for a viewer");
    await viewer.go("/audit");
    await until("the refusal", async () => (await viewer.page.textContent("[role=alert]")).includes("shown to operators only"));
    equal(viewer.wrong.join("\n"), "", "noted for the viewer");
    await viewer.close();
    await server.close();
  },
  "the audit log keeps its rows while the head is away, and is read again from a restarted one": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, go, close } = await tab({ server, token: "vt1.operator" });
    await go("/audit");
    await page.waitForSelector("tbody tr");
    const rows = () => page.locator("tbody tr").count();
    const before = await rows();
    server.away();
    await until("the notice", () => page.isVisible(".notice"));
    await page.waitForTimeout(3500);
    equal(await rows(), before, "rows without the head");
    server.audit.splice(0, server.audit.length - 2);
    server.back();
    await page.click(".notice button").catch(() => {});
    await until("the log of the new head", async () => (await rows()) === 2);
    await close();
    await server.close();
  },
  "an audit log that cannot be read says why and what to do": async () => {
    const { page, go, close } = await tab({ token: "vt1.operator" });
    await page.route("**/api/v1/audit*", (route) => route.fulfill({ status: 403, contentType: "application/problem+json", body: JSON.stringify({ status: 403, code: "kPermissionDenied", detail: "this is for role operator; you have role viewer" }) }));
    await go("/audit");
    await until("the refusal", async () => (await page.textContent("[role=alert]")).includes("you have role viewerYour token's role does not allow this"));
    await close();
  },
  "actors, drivers and placement groups name their owner; operators get to its token": async () => {
    for (const [token, links] of [["vt1.operator", 1], ["vt1.viewer", 0]]) {
      const { page, wrong, go, close } = await tab({ token });
      for (const path of ["/actors/" + actor, "/drivers/4f1c22aa90b1", "/groups/a71c0f2255d04e10"]) {
        await go(path);
        const owner = page.locator('.facts div:has(dt:text-is("Owner"))');
        await until(path + " has an owner", () => owner.count().then((n) => n === 1));
        equal(await owner.locator("dd").textContent(), "t-7f21c0", "owner on " + path);
        equal(await owner.locator("a[href='#/tokens?q=t-7f21c0']").count(), links, `links to the token for ${token} on ${path}`);
      }
      equal(wrong.join("\n"), "", "noted");
      await close();
    }
  },
  "the queue beside an answer is shortened, not cut": async () => {
    const { page, go, close } = await tab();
    for (const width of [1440, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      await go("/queue");
      await page.waitForSelector("tbody tr.opens");
      await page.click("tbody tr.opens");
      await page.waitForSelector(".split .card .explained");
      const over = await page.locator(".scroll").evaluate((box) => box.scrollWidth - box.clientWidth);
      check(over <= 0, `at ${width} px the table is ${over} px wider than its place`);
      equal(await page.locator("th").last().textContent(), "Reason", "the last column");
    }
    await close();
  },
  "trials by their names and tags: shown, filtered, found, beside their ids": async () => {
    const { page, go, close } = await tab();
    await go("/experiments/resnet-width-sweep?tab=trials");
    await page.waitForSelector("tbody tr.opens");
    const heads = await page.locator("th").allTextContents();
    check(heads.includes("Name") && heads.includes("Tags"), heads.join());
    const all = await page.locator(".count").textContent();
    await page.fill("input[data-filter]", "name:_7");
    await until("one trial", async () => (await page.textContent(".count")) !== all && (await page.locator("tbody tr.opens").count()) === 1);
    const name = (await page.locator("tbody tr.opens td").nth(2).textContent()).trim();
    check(/^width=\d+_7$/.test(name), name);
    const id = (await page.locator("tbody tr.opens td code").textContent()).trim();
    equal(await page.getAttribute("tbody tr.opens td code", "title"), name, "the id tells the name");
    await page.fill("input[data-filter]", "tags:keep");
    await until("those with the tag", async () => (await page.textContent(".count")).startsWith("5 of"));
    await go(`/experiments/resnet-width-sweep/trials/${encodeURIComponent(name)}`);
    await until("the trial by its name", async () => (await page.textContent("h1")) === name);
    check((await page.textContent(".facts")).includes(id), "its id stands there too");
    await go("/experiments/resnet-width-sweep");
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog[open] input:focus");
    await page.keyboard.type(name);
    await until("its entry first", async () => ((await page.locator('[role=option][aria-selected=true]').textContent().catch(() => "")) ?? "").includes(id));
    await page.keyboard.press("Escape");
    await until("the best trial's name", async () => /width=\d+_\d+/.test(await page.textContent(".side")));
    await go("/experiments/digits?tab=trials");
    await page.waitForSelector("tbody tr.opens");
    check(!(await page.locator("th").allTextContents()).includes("Name"), "no column where trials have no names");
    await close();
  },
  "tags, note and archive: shown, changed, filtered by; a viewer only reads them": async () => {
    const { page, go, close } = await tab({ token: "vt1.operator" });
    await go("/experiments/digits");
    await page.fill("input[aria-label='Add a tag']", "keeper");
    await page.press("input[aria-label='Add a tag']", "Enter");
    await page.waitForSelector(".tags >> text=keeper");
    await page.click("button[aria-label='Remove tag asha']");
    await until("the tag is gone", async () => !(await page.textContent(".tags.editable")).includes("asha"));
    await page.click("text=Edit the note");
    await page.fill("textarea", "rather narrow");
    await page.click(".note-form button.primary");
    await until("the new note", async () => (await page.textContent(".note-text")) === "rather narrow");
    await page.click(".tags.editable >> text=keeper");
    await until("the list by this tag", async () => (await page.textContent(".count").catch(() => "")).startsWith("1 of"));
    await go("/experiments/digits");
    await page.click(".page-head button >> text=Archive");
    await page.waitForSelector(".toasts >> text=archive");
    await go("/experiments");
    await until("it is out of the list", async () => !(await page.textContent("tbody")).includes("digits"));
    await page.click(".tools button >> text=Archived (1)");
    await until("it is shown when asked", async () => (await page.textContent("tbody")).includes("digits"));
    await close();
    const viewer = await tab({ token: "vt1.viewer" });
    await viewer.go("/experiments/digits");
    await viewer.page.waitForSelector(".tags >> text=keeper");
    equal(await viewer.page.locator(".page-head button >> text=archive").count() + (await viewer.page.locator(".tags input").count()) + (await viewer.page.locator("text=Edit the note").count()), 0, "ways to change it");
    await viewer.close();
    await fetch(still.url + "/api/v1/experiments/digits:annotate", { method: "POST", headers: { Authorization: "Bearer vt1.operator", "X-Volador-Request": "1" }, body: JSON.stringify({ archived: false }) });
  },
  "actions on many: trials stopped together, experiments tagged and compared": async () => {
    const { page, go, close } = await tab({ token: "vt1.operator" });
    await go("/experiments/digits?tab=trials&q=status%3Awaiting");
    await page.waitForSelector("tbody td.pick");
    await page.click("tbody tr.opens:nth-of-type(1) td.pick");
    await page.click("tbody tr.opens:nth-of-type(3) td.pick", { modifiers: ["Shift"] });
    await until("three of them", async () => (await page.textContent(".many b")) === "3 selected");
    await page.click(".many button >> text=Stop");
    await page.click("dialog button.primary");
    await page.waitForSelector(".toasts >> text=3 stop");
    equal(new Set(still.world.asked.filter((one) => one.act === "stop").map((one) => one.trial)).size, 3, "trials that were asked to stop");
    await go("/experiments");
    await page.waitForSelector("tbody td.pick");
    await page.click("thead input");
    await page.click(".many button >> text=Add tags");
    await page.fill("dialog input", "week-47");
    await page.click("dialog button.primary");
    await until("all have the tag", async () => (await page.locator(".tag >> text=week-47").count()) === still.world.tables.experiments.size);
    await page.focus(".scroll");
    for (const key of ["ArrowDown", "x", "ArrowDown", "x"]) await page.keyboard.press(key);
    await until("two by keys", async () => (await page.textContent(".many b").catch(() => "")) === "2 selected");
    await page.click(".many button >> text=Compare");
    await until("the comparison", async () => (await page.textContent("h1")) === "Comparison of experiments");
    await until("its lines", () => page.locator("figure canvas").count().then((n) => n > 0));
    await close();
  },
  "a log of 1,000,000 lines: follow, search, next error, from end to beginning, a link to a line": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    // Returns the lines that are visible, not only rendered.
    const shown = () => page.locator(".log-number").evaluateAll((all) => all.filter((one) => { const at = one.getBoundingClientRect(); return document.elementFromPoint(at.x + 2, at.y + at.height / 2) === one; }).map((one) => Number(one.textContent)));
    const text_of = (line) => page.locator(`.log-line:has(.log-number:text-is("${line}")) .log-text`).textContent();
    await go("/logs?node=heron&view=all");
    await until("the end", async () => (await shown()).includes(1_000_000));
    await until("its text", async () => (await text_of(1_000_000)).startsWith("error: batch 1000000"));
    server.world.whole_log.last += 3;
    await until("a line that came", async () => (await shown()).includes(1_000_003));
    check((await page.locator("*").count()) < 3000, "few elements");

    await page.locator(".log-scroll").evaluate((box) => { box.scrollTop = 0; });
    await until("the beginning", async () => (await shown())[0] === 1);
    await until("its text", async () => (await text_of(1)) === "step 1 loss 1.00000 rate 127.0/s");
    check((await page.getAttribute("button:has-text('Follow')", "aria-pressed")) === "false", "who scrolls away does not follow");
    await page.locator(".log-scroll").evaluate((box) => { box.scrollTop = box.scrollHeight / 2; });
    await until("the middle", async () => (await shown()).some((line) => line > 490_000 && line < 510_000));

    await page.click("text=Next error");
    await until("the error", async () => /line=\d+000(&|$)/.test(await page.evaluate(() => location.hash)));
    const at = Number(await page.locator(".log-line.at .log-number").textContent());
    equal(at % 1000, 0, "the line is an error");
    await page.click("[aria-label='Previous error']");
    await until("the error before", async () => Number(await page.locator(".log-line.at .log-number").textContent()) === at - 1000);

    await page.fill("[data-filter]", "BATCH 77");
    await until("what was found", async () => (await page.textContent(".count")) === "11 lines found");
    await page.click(".log-number >> text=77000");
    await until("the line in its place", async () => (await shown()).includes(76_999) && (await page.locator(".log-line.at .log-number").textContent()) === "77000");
    await page.fill("[data-filter]", "loss");
    await until("a limit", async () => (await page.textContent(".count")) === "1,000 lines shown");
    await page.click("text=Show older lines");
    await until("older ones", async () => (await shown()).length > 0 && (await shown()).every((line) => line <= 999_002));
    await page.fill("[data-filter]", "no such text");
    await until("nothing", async () => (await page.textContent("main")).includes("No line contains"));

    server.world.whole_log.first = 250_001;
    await go("/logs?node=heron&view=all&line=612345");
    await until("the line of the link", async () => (await page.locator(".log-line.at .log-number").textContent()) === "612345");
    await until("what is gone", async () => (await page.textContent(".log-note")).includes("Lines 1 to 250,000 are gone"));
    await page.locator(".log-scroll").evaluate((box) => { box.scrollTop = 0; });
    await until("the first that is there", async () => (await shown())[0] === 250_001);
    await page.fill("input[name=line]", "400000");
    await page.keyboard.press("Enter");
    await until("that line", async () => (await page.locator(".log-line.at .log-number").textContent()) === "400000");
    equal(wrong.join("\n"), "", "noted");
    await go("/logs?id=gone&view=all");
    await until("why there is none", async () => (await page.textContent("[role=alert]")).includes("printed nothing"));
    await close();
    await server.close();
  },
  "downloads: tables and files with their sizes; where they are out of reach it says why": async () => {
    const { page, go, close } = await tab({ token: "vt1.viewer" });
    await go("/experiments/digits");
    await page.click(".menu button");
    await until("the journal", async () => (await page.textContent(".menu-list")).includes("Journal of the run179 KiB"));
    const hrefs = await page.locator(".menu-list a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
    check(hrefs.includes("/api/v1/experiments/digits/trials.csv") && hrefs.includes("/api/v1/experiments/digits/config?format=yaml"), hrefs.join());
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Escape");
    await until("the list is closed", async () => (await page.locator(".menu-list").count()) === 0);
    await go(`/experiments/digits/trials/${stopped.id}`);
    await until("its checkpoints", async () => (await page.textContent(".files")).includes("Step 27"));
    equal(await page.getAttribute(".files a", "href"), `/api/v1/experiments/digits/trials/${stopped.id}/files/checkpoint_000027`, "address of the newest one");
    const failed = [...still.world.tables.experiments.values()].find((one) => one.files === "elsewhere");
    await go("/experiments/" + failed.id);
    await page.click(".menu button");
    await until("the journal from its machine", async () => (await page.textContent(".menu-list")).includes("Journal of the run179 KiB"));
    still.world.unreachable = failed.name;
    await go("/experiments/digits");
    await go("/experiments/" + failed.id);
    await page.click(".menu button");
    await until("why not", async () => (await page.textContent(".menu-list .off")).includes(failed.directory));
    delete still.world.unreachable;
    await close();
  },
  "placement groups: their state, reason, bundles with nodes and actors; a link for a filter": async () => {
    const { page, go, close } = await tab();
    await go("/groups?q=state%3Apending");
    await until("the one that waits", async () => (await page.textContent(".count")).startsWith("1 of 4"));
    await page.click("tbody tr.opens");
    await until("why it waits", async () => (await page.textContent(".reason")).includes("5 nodes are there"));
    await go("/groups/a71c0f2255d04e10");
    await until("its bundles", async () => (await page.locator('section:has(h2:text("Bundles")) tbody tr').count()) === 3);
    await until("its actors", async () => (await page.locator('section:has(h2:text("Actors in this group")) tbody tr.opens').count()) === 2);
    const row = { ...still.world.tables.groups.get("a71c0f2255d04e10"), state: "rescheduling", reason: "bundle 2 lost its node" };
    const before = still.world.tables.groups.get(row.id);
    still.world.put("groups", row);
    await until("the change", async () => (await page.textContent(".page-head")).includes("moving"));
    still.world.put("groups", before);
    await go("/groups/nothing");
    await until("what to do", async () => (await page.textContent("[role=alert]")).includes("The list shows"));
    await close();
  },
  "objects: by program line, one by one, by node; order and filter in the address": async () => {
    const { page, go, close } = await tab();
    await go("/objects");
    await until("the sums", async () => /3,314 objects.*on disk.*plover does not answer/.test(await page.textContent(".page-head")));
    await until("the greatest first", async () => (await page.textContent("tbody tr")).includes("15.3 GiB"));
    await page.click("[role=tab] >> text=All objects");
    await until("who holds it", async () => (await page.textContent("tbody")).includes("driver tune_digits (pid 31221)"));
    await until("how many more there are", async () => (await page.textContent(".tools")).includes("the 240 largest of 3,314"));
    await page.fill("[data-filter]", "state:freed");
    await until("the freed ones", async () => (await page.textContent(".count")).startsWith("27 of"));
    await page.click("thead button >> text=Size");
    check(/sort=bytes/.test(await page.evaluate(() => location.hash)) && /q=state/.test(await page.evaluate(() => location.hash)), "filter and order are in the address");
    await page.click("[role=tab] >> text=By node");
    await until("what is wrong with plover", async () => (await page.textContent("tbody")).includes("not connected"));
    await close();
  },
  "over results on disk: the experiments, and no page of a cluster": async () => {
    const server = await start({ trials: 40, still: true, view: "/data/results" });
    const { page, wrong, go, close } = await tab({ server, token: "vt1.viewer" });
    await until("the experiments first", async () => (await page.textContent("h1")) === "Experiments");
    equal(await page.locator("nav[aria-label=Pages] a").count(), 1, "pages");
    equal(await page.locator("button[aria-label='Sign out']").count(), 0, "buttons to sign out: there is no token to come back with");
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog[open] input:focus");
    equal(await page.locator("[role=option] >> text=Nodes").count(), 0, "ways to the nodes");
    await page.keyboard.press("Escape");
    await go("/experiments/digits");
    await until("its curves", () => page.locator("figure canvas").count().then((n) => n > 0));
    await page.click("[role=tab] >> text=Timeline");
    await until("its trials over slots", () => page.locator("figure canvas").count().then((n) => n > 0));
    for (const path of ["/nodes", "/logs?node=heron", "/tokens", "/audit"]) {
      await go(path);
      await until(path + " says what is here", async () => (await page.textContent("main")).includes("there is no cluster"));
    }
    await page.click("main a >> text=Experiments");
    await until("the list", async () => (await page.textContent("h1")) === "Experiments");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "events of the head are Chinese on Chinese pages; what we do not know stays as it was written": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server, lang: "zh-CN" });
    server.world.event("info", "node is back", { node: "plover" });
    server.world.event("warn", "an event of a later version", { node: "plover" });
    await until("the overview's list", async () => (await page.textContent("main")).includes("节点 plover 已恢复"));
    await go("/events?q=" + encodeURIComponent("text:已恢复"));
    await until("it is found in Chinese", async () => (await page.locator("tbody tr.opens").count()) === 1);
    await go("/events?q=later");
    await until("the English text", async () => (await page.textContent("tbody")).includes("an event of a later version"));
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "an actor's own measures stand on its page, counters with their rate": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    const embedder = [...server.world.tables.actors.values()].find((one) => one.name === "embedder");
    await go("/actors/" + embedder.id);
    await until("a measure with its labels", async () => /requests_total route=embed/.test(await page.textContent("main")));
    await until("how fast it grows", async () => /requests_total route=embed[^a-z]*[\d.]+\/s/.test(await page.textContent("main")));
    await until("how it went", () => page.locator(".spark").count().then((n) => n === 3));
    check(/batch_seconds[^a-z]*, mean/.test(await page.textContent("main")), "a histogram has its mean");
    if (process.env.VOLADOR_WEB_SHOTS) await page.screenshot({ path: process.env.VOLADOR_WEB_SHOTS + "/actor_measures.png" });
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "why things wait and why they ended is said in Chinese on Chinese pages": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server, lang: "zh-CN" });
    const says = async (path, ...texts) => {
      await go(path);
      for (const text of texts) await until(`${path} says ${text}`, async () => (await page.textContent("main")).includes(text));
    };
    await says("/queue?id=q1a2b3c4d5e6f703", "等待 1 GPU：唯一容得下它的节点 osprey 已用 4，共 4；前面有 1 个更早的请求", "等待更大的节点加入", "要求：2 CPU，1 GPU");
    await says("/actors?dead=1&sort=-state", "被信号 9（SIGKILL）终止（节点 plover）");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "an empty cluster says what to do next": async () => {
    const server = await start({ still: true, empty: true });
    const { page, wrong, go, close } = await tab({ server });
    for (const [path, word] of Object.entries({ "/experiments": "tune_digits", "/nodes": "volador start", "/studies": "volador study create", "/jobs": "volador job submit", "/actors": "spawn()", "/tasks": "volador::task", "/queue": "No request waits", "/groups": "volador::placement_group", "/objects": "volador::put", "/objects?tab=stores": "volador start", "/drivers": "hello_actor", "/events": "are listed here", "/audit": "Requests that change the cluster are listed here", "/": "tune_digits" })) {
      await go(path);
      await until(`${path} names ${word}`, async () => (await page.textContent("main")).includes(word));
    }
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
});
