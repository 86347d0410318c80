// Tests charts, comparisons and the phone layout by user input, in Chromium with a simulated cluster.
// VOLADOR_WEB_CASES=REGEX selects cases.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { check, equal, until, web } from "./harness.mjs";
import { over_made_up_cluster, settled } from "./tab.mjs";

const { start, still, tab, run_all } = await over_made_up_cluster();
const { TrainingRun } = await import(join(web, "dev/training.mjs"));
const trials = [...still.world.trials.get("digits").values()];
const hash = (page) => page.evaluate(() => location.hash);

await run_all("web_views", {
  "chosen trials are compared side by side, with what differs marked, and saved": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/experiments/digits?tab=trials");
    await page.waitForSelector("tbody tr.opens");
    for (const row of [1, 2, 3]) await page.click(`tbody tr.opens:nth-of-type(${row}) td.pick`);
    await page.click(".many button >> text=Compare");
    await until("the comparison", async () => (await page.textContent("h1")) === "Comparison of trials");
    await until("its curves", () => page.locator("figure canvas").count().then((n) => n > 0));
    equal(await page.locator(".legend-entry").count(), 3, "lines with a name");
    equal(await page.locator(".compare.wide thead th").count(), 4, "columns");
    const row_of = (name) => page.locator(`.compare.wide tbody tr:has(th[title="${name}"])`);
    check((await row_of("lr").textContent()).startsWith("≠"), "lr differs");
    check(!(await row_of("epochs").textContent()).startsWith("≠"), "epochs is the same");
    equal(await row_of("accuracy").locator(".best").count(), 1, "the best value");
    await page.click("text=Differences only");
    await until("what is the same is gone", async () => (await row_of("epochs").count()) === 0 && (await row_of("lr").count()) === 1);
    check((await hash(page)).includes("only=1"), "the address says so");
    await page.selectOption("label.select:has-text('Metric') select", "loss");
    await until("curves of the other metric", async () => (await page.textContent(".card h2")) === "loss by step");
    await page.click("text=Add a chart");
    await until("a chart of another metric below", async () => (await page.locator(".card:has(figure) h2").allTextContents()).join() === "loss by step,accuracy by step");
    await until("with the same trials", async () => (await page.locator("figure").nth(1).locator(".legend-entry").count()) === 3);
    const values = async () => { const all = page.locator("figure").first(); await all.locator(".chart-tools .icon-button").click(); const text = await all.locator(".data-table").textContent(); await all.locator(".chart-tools .icon-button").click(); return text; };
    const rough = await values();
    await page.locator("figure input[type=range]").first().fill("0.6");
    await until("the address says how smooth", async () => (await hash(page)).includes("smooth=0.6"));
    check((await values()) !== rough, "the lines are smoothed");
    await page.click("[aria-label='Remove the chart of accuracy']");
    await until("one chart", async () => (await page.locator("figure").count()) === 1);
    const saved = async (kind) => {
      await page.click(".page-head .menu button");
      const [download] = await Promise.all([page.waitForEvent("download"), page.click(`[role=menuitem]:has-text("${kind}")`)]);
      return [download.suggestedFilename(), await readFile(await download.path(), "utf8")];
    };
    const ids = new URLSearchParams((await hash(page)).split("?")[1]).get("of").split(",");
    const [csv_name, csv] = await saved("CSV");
    equal(csv_name, "digits-trials.csv", "its name");
    check(csv.startsWith("trial,name,status,node,step,config.activation,config.batch") && ids.every((id) => csv.includes("\n" + id + ",")), csv);
    const [, json] = await saved("JSON");
    equal(JSON.parse(json).map((one) => one.trial).join(), ids.join(), "trials of the JSON file");
    await page.click(".with-close button >> nth=0");
    await until("two of them", async () => (await page.locator(".compare.wide thead th").count()) === 3);
    await page.click(".page-head >> text=Highlight in curves");
    await until("they stand out", async () => (await page.textContent("main")).includes("2 highlighted"));
    await page.click("figure >> text=Compare");
    await until("and are compared from there", async () => (await page.textContent("h1")) === "Comparison of trials");
    await go(`/experiments/digits/compare?of=${trials[0].id}%2Cnothing`);
    await until("what to do with one alone", async () => (await page.textContent("main")).includes("Select two to 8 trials"));
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "experiments are compared by one metric, or each by its own": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/compare?of=digits%0Aresnet-width-sweep");
    await until("what both report", async () => (await page.textContent(".card h2")) === "Best accuracy so far, by step");
    await until("their lines", async () => (await page.locator(".legend-entry").allTextContents()).join() === "digits,resnet-width-sweep");
    await page.getByLabel("Metric of resnet-width-sweep in the chart").selectOption("loss");
    await until("each by its own", async () => (await page.locator(".legend-entry").allTextContents()).join() === "digits · accuracy,resnet-width-sweep · loss");
    equal(await page.textContent(".card h2"), "Best so far, by step", "the title");
    check((await hash(page)).includes("m-resnet-width-sweep=loss"), "the address says so");
    await page.getByLabel("Metric of resnet-width-sweep in the chart").selectOption("accuracy");
    await until("one for both again", async () => (await page.textContent(".card h2")) === "Best accuracy so far, by step");
    await close();
    equal(wrong.join("\n"), "", "errors and foreign requests");
  },
  "a trial's histograms and images are read from its event file, with their numbers as a table": async () => {
    const { page, wrong, go, close } = await tab();
    await go(`/experiments/digits/trials/${trials[0].id}`);
    const card = (title) => page.locator(`.card:has(h2:text-is("${title}"))`);
    await until("the histograms", async () => (await card("Histograms").locator("canvas").count()) > 0);
    await card("Histograms").locator("select").selectOption("layer2/weights");
    await card("Histograms").locator("button[aria-pressed]").click();
    equal(await card("Histograms").locator("tbody tr").count(), 24, "a row a step");
    check((await card("Histograms").locator("tbody tr").first().textContent()).match(/^24[-−]1.2/), "the newest first, with its mean");
    const image = card("Images").locator("img");
    equal(await image.evaluate((one) => `${one.naturalWidth} × ${one.naturalHeight}`), "28 × 28", "the picture itself");
    const [newest, alt] = [await image.getAttribute("src"), await image.getAttribute("alt")];
    equal(alt, "filters at step 24", "what it is");
    await card("Images").locator("input[type=range]").fill("0");
    await until("the first one", async () => (await image.getAttribute("alt")) === "filters at step 1" && (await image.getAttribute("src")) !== newest);
    await close();
    equal(wrong.join("\n"), "", "errors and foreign requests");
  },
  "on a phone rows are cards, with an order to choose, and open what they name": async () => {
    const { page, wrong, go, close } = await tab({ phone: true });
    await go("/nodes");
    await until("cards", () => page.locator(".row-card").count().then((n) => n === 5));
    check((await page.textContent(".row-card")).includes("CPUs reserved12 / 16"), await page.textContent(".row-card"));
    await page.selectOption(".order-choice select", "load");
    await until("the busiest first", async () => (await page.textContent(".row-card-title")) === "kestrel");
    await page.click(".order-choice button");
    await until("the other way round", async () => (await page.textContent(".row-card-title")) === "sandpiper");
    await page.click(".row-card >> text=osprey");
    await until("its page", async () => (await page.textContent("h1")) === "osprey");
    await go("/experiments/digits?tab=trials");
    await page.waitForSelector(".row-card");
    const first = await page.textContent(".row-card-title");
    await page.locator(".scroll").evaluate((box) => { box.scrollTop = box.scrollHeight; });
    await until("the last card", () => page.locator('tr[aria-rowindex="121"]').count().then((n) => n === 1));
    const last = await page.locator('tr[aria-rowindex="121"]').boundingBox();
    check(last.y + last.height <= 845 && last.y + last.height > 700, `the last card ends at ${last.y + last.height}`);
    await page.locator(".scroll").evaluate((box) => { box.scrollTop = 0; });
    await until("the first card", async () => (await page.textContent(".row-card-title")) === first);
    await page.locator("td.pick").first().click();
    await until("it is chosen", async () => (await page.textContent(".many b")) === "1 selected");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "on a phone two experiments stand side by side without scrolling": async () => {
    const { page, wrong, go, close } = await tab({ phone: true });
    await go("/compare?of=digits%0Aresnet-width-sweep");
    await page.waitForSelector(".compare.wide td");
    equal(await page.locator(".compare.wide").evaluate((box) => box.scrollWidth - box.clientWidth), 0, "px that are out of sight");
    equal(await page.locator(".compare.wide td").evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent).join()), "", "cells that are cut");
    await close();
    equal(wrong.join("\n"), "", "errors and foreign requests");
  },
  "on a phone a token is revoked, with a red button": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server, phone: true });
    await go("/tokens");
    await page.click(".row-card button >> text=Revoke");
    check((await page.locator("dialog footer button >> text=Revoke").getAttribute("class")).includes("danger"), "the button that revokes is red");
    await page.click("dialog footer button >> text=Revoke");
    await until("it is revoked", async () => (await page.textContent("tbody")).includes("revoked"));
    equal(await page.locator(".row-card button >> text=Revoke").count(), 0, "tokens left to revoke");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "on a phone the chosen tab is in sight and what is pressed is 40 px high": async () => {
    const { page, wrong, go, close } = await tab({ phone: true });
    const small = [];
    const actor = still.world.tables.actors.keys().next().value;
    for (const path of ["/", "/experiments", "/experiments/digits", "/experiments/digits?tab=trials", "/experiments/digits?tab=parallel", "/experiments/digits?tab=gantt", "/experiments/digits?tab=pareto", `/experiments/${still.world.trainings[0].name}`,
      `/experiments/digits/trials/${trials[0].id}`, `/experiments/digits/compare?of=${trials[0].id}%2C${trials[1].id}`, "/nodes/osprey", "/actors", `/actors/${actor}`, "/queue", "/jobs", "/job_queue", "/job_usage", "/logs?node=heron", "/logs?node=heron&view=all", "/tokens", "/audit", "/studies/boosting", "/groups/a71c0f2255d04e10", "/objects?tab=stores"]) {
      await go(path);
      await settled(page);
      await page.locator("#main .popover-button").evaluateAll((all) => all.forEach((one) => one.click()));
      // Links within text, and checkboxes whose whole cell is clickable, may be as low as their line.
      small.push(...await page.locator("#main :is(button, select, summary, [role=tab], a.button, input:not([type=checkbox]), .status-list a, .files a, .warnings a, .legend-entry)").evaluateAll((all, at) => all.filter((one) => one.offsetParent && !one.closest("p, .notice"))
        .map((one) => [one.closest("label.filter, label.range") ?? one, one]).filter(([box]) => box.getBoundingClientRect().height < 39.5).map(([box, one]) => `${at}: ${one.tagName} ${one.className} ${(one.textContent || one.getAttribute("aria-label") || "").slice(0, 24)} ${Math.round(box.getBoundingClientRect().height)}`), path));
      const [left, right] = await page.evaluate(() => { const box = document.querySelector('[role=tab][aria-selected="true"]')?.getBoundingClientRect(); return [box?.left ?? 0, box?.right ?? 0]; });
      check(left >= 0 && right <= 390, `${path}: the chosen tab stands from ${left} to ${right}`);
    }
    equal([...new Set(small)].join("\n"), "", "too small");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "an actor is killed by an operator who says so twice; its timeline is saved; a viewer sees no button": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server, token: "vt1.operator" });
    const actor = [...server.world.tables.actors.values()].find((one) => one.name === "embedder");
    await go("/actors/" + actor.id);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Download the timeline")]);
    equal(download.suggestedFilename(), `timeline-${actor.id.slice(0, 8)}.json`, "its name");
    check(JSON.parse(await readFile(await download.path(), "utf8")).traceEvents.length === 1, "what is in it");
    await page.click(".page-head button.danger >> text=Kill");
    check((await page.textContent("dialog pre")) === `volador kill ${actor.id.slice(0, 8)}`, "the same in a terminal");
    await page.check("dialog input[type=checkbox]");
    check((await page.textContent("dialog pre")).endsWith(" --restart"), "with a restart");
    await page.uncheck("dialog input[type=checkbox]");
    await page.click("dialog button >> text=Cancel");
    equal(server.world.tables.actors.get(actor.id).state, "alive", "its state after Cancel");
    await page.click(".page-head button.danger >> text=Kill");
    await page.click("dialog footer button.danger");
    await page.waitForSelector(".toasts >> text=embedder is killed.");
    await until("it has ended", async () => (await page.textContent(".page-head .state")) === "ended");
    equal(await page.locator(".page-head button >> text=Kill").count(), 0, "buttons to kill what has ended");
    equal(wrong.join("\n"), "", "noted");
    await close();
    const viewer = await tab({ server, token: "vt1.viewer" });
    const other = [...server.world.tables.actors.values()].find((one) => one.state === "alive");
    await viewer.go("/actors/" + other.id);
    await settled(viewer.page);
    equal(await viewer.page.locator("button >> text=Kill").count(), 0, "buttons of a viewer");
    await viewer.close();
    await server.close();
  },
  "jobs are listed by state; one has its ranks with their logs; it is stopped, extended and reordered after a question; a viewer sees no button": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/jobs");
    const names = () => page.locator("tbody tr.opens td:nth-child(3)").allTextContents();
    await until("the jobs, newest first", async () => (await names()).join() === "evaluate,finetune,profile,sweep,imagenet,prepare");
    check(/about .*, at the latest .* · needs/.test(await page.textContent("tbody tr:has-text('evaluate')")), "when a queued job starts, and why it waits");
    await page.click(".state-chips >> text=failed");
    await until("the failed job alone", async () => (await names()).join() === "imagenet" && (await hash(page)).includes("state=failed"));
    await page.click(".state-chips >> text=All");
    await until("all of them", async () => (await names()).length === 6);
    await page.fill("[data-filter]", "tune");
    await until("the job of that name", async () => (await names()).join() === "finetune");
    await page.click("tbody tr.opens td:nth-child(4)");
    await until("its page", async () => (await page.textContent("h1")) === "finetune" && (await page.textContent(".page-head .state")) === "running");
    equal(await page.locator("section:has(h2:text-is('Ranks')) tbody tr").count(), 2, "ranks");
    await page.selectOption("label.select:has-text('Rank') select", "1");
    await until("the log of rank 1", async () => (await page.textContent("main")).includes("Log of rank 1") && (await page.locator(".log-line").count()) > 0);
    const log = await page.locator("section:has(h2:text-is('Ranks')) tbody tr >> text=Open").first().getAttribute("href");
    check(/^#\/logs\?id=/.test(log), "link to the log of its actor: " + log);
    await page.click(".page-head >> text=Extend");
    await page.fill("dialog input[type=number]", "300");
    check((await page.textContent("dialog")).includes("volador job extend job-7 18000s"), "the same in a terminal");
    await page.click("dialog button.primary");
    await until("the new maximum time", async () => (await page.textContent(".facts")).includes("5 h"));
    await page.click(".page-head >> text=Stop");
    check((await page.textContent("dialog")).includes("volador job stop job-7"), "the same in a terminal");
    await page.click("dialog button.primary.danger");
    await until("it is stopped", async () => (await page.textContent(".page-head .state")) === "stopped" && (await page.textContent(".reason")).includes("stopped with token"));
    equal(await page.locator(".page-head >> text=Extend").count(), 0, "buttons of an ended job");
    await page.click(".page-head >> text=Delete");
    await page.click("dialog button.primary.danger");
    await until("the list without it", async () => (await page.getAttribute("#main", "data-at")) === "/jobs" && (await names()).length === 5);
    await go("/jobs/job-8");
    await page.click(".page-head >> text=Priority");
    await page.selectOption("dialog select", "very_urgent");
    await page.click("dialog button.primary");
    await until("the new priority", async () => (await page.textContent("main")).includes("very urgent"));
    await go("/jobs/job-2");
    await until("its earlier attempt", async () => (await page.locator("section:has(h2:text-is('Earlier attempts')) tbody tr").count()) === 2);
    equal(wrong.join("\n"), "", "noted");
    await close();
    const viewer = await tab({ server, token: "vt1.viewer" });
    await viewer.go("/jobs");
    await viewer.page.waitForSelector("tbody tr.opens");
    equal(await viewer.page.locator(".page-head button").count(), 0, "buttons of a viewer in the list");
    await viewer.go("/jobs/job-8");
    await settled(viewer.page);
    equal(await viewer.page.locator(".page-head button").count(), 0, "buttons of a viewer");
    await viewer.close();
    await server.close();
  },
  "the form of a job predicts its start while it is filled in, and submits it": async () => {
    const server = await start({ trials: 40, still: true });
    for (const [lang, now, about, never] of [["en-US", "starts now", "about", "never: it needs 100 CPUs"], ["zh-CN", "立即开始", "约", "无法开始："]]) {
      const { page, wrong, go, close } = await tab({ server, lang });
      await go("/jobs");
      await page.click(".page-head button.primary");
      const field = (name) => page.locator(`dialog label:has-text("${name}") input`);
      const said = (text) => until(text, async () => (await page.textContent("dialog .prediction")).includes(text));
      check(await page.isDisabled("dialog button[type=submit]"), "nothing is submitted without a command");
      await page.fill("dialog textarea", "python3 train.py");
      await said(now);
      await field("GPU").fill("1");
      await said(about);
      await field("CPU").fill("100");
      await said(never);
      wrong.length = 0;  // The browser notes the refusal.
      await page.click("dialog button[type=submit]");
      await until("the refusal", async () => (await page.textContent(".toasts")).includes("100 CPUs"));
      wrong.length = 0;
      await field("CPU").fill("2");
      await said(about);
      await page.click("dialog button[type=submit]");
      await until("the page of the new job", async () => /^\/jobs\/job-\d+$/.test(await page.getAttribute("#main", "data-at")) && (await page.textContent("main")).includes("python3 train.py"));
      equal(await page.locator("dialog").count(), 0, "dialogs");
      equal(wrong.join("\n"), "", "noted");
      await close();
    }
    await server.close();
  },
  "an explanation is a list of facts and a line of states with their times, and does not repeat what stands above it": async () => {
    const { page, wrong, go, close } = await tab();
    await go(`/experiments/digits/trials/${trials.find((one) => one.status === "stopped").id}`);
    await until("the states", () => page.locator(".changes li").count().then((n) => n === 6));
    await until("the restart and its reason", async () => /^\+4 min 14 s.*restarting.*exited with code 3/.test(await page.locator(".changes li").nth(3).textContent()));
    equal((await page.textContent(".explained")).split("others do better").length, 1, "times that the reason is repeated");
    await close();
    const zh = await tab({ lang: "zh-CN" });
    await zh.go(`/experiments/digits/trials/${trials[0].id}`);
    await until("the same in Chinese", async () => /启动中.*（?节点 heron.*能容纳它且占用率最高的节点/.test(await zh.page.textContent(".changes").catch(() => "")));
    equal(wrong.concat(zh.wrong).join("\n"), "", "noted");
    await zh.close();
  },
  "lines of GPUs on each other are told apart by their strokes, and hidden one by one": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/nodes/osprey?range=hour");
    const legend = page.locator('section:has(h2:text("GPUs granted")) .legend-entry');
    await until("its lines", () => legend.count().then((n) => n === 4));
    const strokes = await legend.locator("line").evaluateAll((all) => all.map((one) => one.getAttribute("stroke-dasharray")));
    equal(new Set(strokes).size, 3, "different strokes besides the whole line");
    await legend.nth(0).click();
    await until("it is hidden", async () => (await legend.nth(0).getAttribute("aria-pressed")) === "false");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "log axes of parallel coordinates and scatter plots are chosen by hand and said in the address": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/experiments/digits?tab=parallel");
    await page.click("button >> text=Log axes");
    const lr = page.locator("[role=menuitemcheckbox]:has-text('lr')");
    equal(await lr.getAttribute("aria-checked"), "true", "lr is drawn on a log axis by its values");
    await lr.click();
    await until("it is linear", async () => (await lr.getAttribute("aria-checked")) === "false" && (await hash(page)).includes("scales=lr%3Alinear"));
    const accuracy = page.locator("[role=menuitemcheckbox]:has-text('accuracy')");
    await accuracy.click();
    await until("the metric's axis is", async () => (await accuracy.getAttribute("aria-checked")) === "true");
    equal(await page.locator("[role=menuitemcheckbox]:has-text('activation')").count(), 0, "words have no log axis");
    await go("/experiments/digits?tab=scatter&sx=activation");
    check(await page.isDisabled("button >> text=Log x"), "nor have they in the scatter plot");
    await page.click("button >> text=Log y");
    await until("y is", async () => (await hash(page)).includes("sylog=1"));
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "the box beside a mark has the parameters that vary, stands beside it, and a legend hides marks": async () => {
    const { page, wrong, go, close } = await tab();
    for (const view of ["scatter", "history", "parallel", "gantt", "rungs"]) {
      await go("/experiments/digits?tab=" + view);
      await settled(page);
      const canvas = page.locator("figure .canvas");
      const box = await canvas.boundingBox();
      let at = null;
      for (let y = 50; y < box.height - 40 && !at; y += 14) {
        for (let x = 70; x < box.width - 20 && !at; x += 26) {
          await page.mouse.move(box.x + x, box.y + y);
          if (await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done(document.querySelector(".tip") !== null))))) at = { x: box.x + x, y: box.y + y };
        }
      }
      check(at, view + " has a mark");
      const terms = await page.locator(".tip dt").allTextContents();
      check(["lr", "momentum"].every((name) => terms.includes(name)), `${view}: ${terms}`);
      const tip = await page.locator(".tip").boundingBox();
      check(tip.x > at.x - 17 + 12 || tip.x + tip.width < at.x + 17 - 12, `${view}: the box stands over its mark`);
    }
    await go("/experiments/digits?tab=scatter");
    const marks = async () => Number(/^(\d+) trials/.exec(await page.getAttribute("figure", "aria-label"))[1]);
    await until("marks", async () => (await marks()) > 20);
    const before = await marks();
    await page.click(".legend-entry:has-text('stopped early')");
    await until("fewer marks", async () => (await marks()) < before);
    check((await hash(page)).includes("hidden=stopped"), "the address says so");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "the run's configuration says what is searched, how, and when trials stop; slice plots lead to scatter plots": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/experiments/digits?tab=slice");
    await until("a chart a parameter", () => page.locator(".slice canvas").count().then((n) => n === 12));
    const run = page.locator('section:has(h2:text("Run configuration"))');
    await run.locator("button >> text=Show").click();
    await until("the space", async () => (await run.textContent()).includes("lrloguniform(5e-05, 0.13)"));
    const says = await run.textContent();
    for (const text of ["TPE, 20 random first", "1970324836", "batch16, 32, 64, 128", "at accuracy 0.995", "after 81 steps", "after 1 h", "epochs81", "'--note=wider layers'", "with changes"]) check(says.includes(text), `${text} is not in ${says}`);
    await page.click(".slice >> nth=1");
    await until("its scatter plot", async () => (await page.textContent(".card h2")) === "accuracy over momentum");
    await go("/experiments/digits?tab=edf");
    await until("the distribution", () => page.locator("figure canvas").count().then((n) => n > 0));
    await page.selectOption("label.select:has-text('Colour by') select", "activation");
    await until("a line a group", () => page.locator(".legend-entry").count().then((n) => n === 3));
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "tasks are listed by function with what runs, ended and failed": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/tasks");
    await until("the functions", async () => /digits::load_shard3432[0-9]{2,3} ms/.test((await page.locator("tbody tr").first().textContent()).replace(/\s/g, " ")));
    check((await page.locator("tbody tr").nth(1).textContent()).startsWith("integrate01,2000"), await page.locator("tbody tr").nth(1).textContent());
    check((await page.textContent(".page-head")).includes("2 processes for tasks"), "processes that run tasks");
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await until("another page by its keys", async () => (await page.textContent("h1")) === "Queue");
    await page.keyboard.press("g");
    await page.keyboard.press("k");
    await until("and back", async () => (await page.textContent("h1")) === "Tasks");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "all metrics stand beside each other; a contour plot has a third axis as colour and surface": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/experiments/digits?tab=metrics");
    await until("a chart a metric", () => page.locator(".small-charts .u-over").count().then((n) => n === 3));
    equal((await page.locator(".small-charts h3").allTextContents()).join(), "accuracy,loss,time_total_s", "the experiment's own first");
    await page.click(".small-charts h3 a >> text=loss");
    await until("its curves", async () => (await page.textContent(".card h2")) === "loss by step");
    await go("/experiments/digits?tab=contour");
    const color_at = () => page.locator("figure canvas").first().evaluate((canvas) => {
      const copy = document.createElement("canvas").getContext("2d");
      copy.drawImage(canvas, -90 * devicePixelRatio, -60 * devicePixelRatio);
      return [...copy.getImageData(0, 0, 1, 1).data].join();
    });
    await until("its axes", async () => (await page.textContent(".card h2")) === "momentum over lr");
    const background = "0,0,0,0";
    await until("the surface", async () => (await color_at()) !== background);
    await page.click("button >> text=Surface");
    await until("marks alone", async () => (await color_at()) === background);
    check((await hash(page)).includes("surface=0"), "the address says so");
    await go("/experiments/digits?tab=scatter");
    await page.selectOption("label.select:has-text('Colour by') select", "activation");
    await until("words as colours", async () => (await page.textContent(".legend")) === "gelurelutanh");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "a view is saved by a name, opened in another experiment, and removed": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/experiments/digits?tab=trials&q=status%3Afinished&pin=abc");
    await page.click("button >> text=Views");
    await page.click("[role=menuitem] >> text=Save this view");
    await page.fill("dialog input", "only finished");
    await page.press("dialog input", "Enter");
    await page.reload();
    await go("/experiments/resnet-width-sweep");
    await page.click("button >> text=Views");
    await page.click("[role=menuitem] >> text=only finished");
    await until("the view", async () => /resnet-width-sweep\?tab=trials&q=status%3Afinished$/.test(await hash(page)));
    await page.click("button >> text=Views");
    await page.click("[role=menuitem] >> text=Save this view");
    await page.click("dialog button[aria-label='Remove the view only finished']");
    await page.keyboard.press("Escape");
    await page.click("button >> text=Views");
    equal(await page.locator("[role=menuitem]").count(), 1, "entries of the menu");
    await go("/experiments/tokenizer-baseline");
    await until("how to go on with one that failed", async () => (await page.textContent(".side")).includes("volador tune resume /home/ada/volador_results/tokenizer-baseline"));
    await go("/experiments/tokenizer-baseline?tab=trials");
    await page.click(".page-head button >> text=Resume");
    equal(await page.locator("dialog pre").textContent(), "volador tune resume /home/ada/volador_results/tokenizer-baseline_2026-11-21_10-02-11", "the command for the terminal");
    equal(await page.locator("dialog .code button").count(), 1, "a button that copies it");
    await page.keyboard.press("Escape");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "the edge of a column's name is dragged, pressed twice and moved by keys; the width stays with the browser": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/experiments/digits?tab=trials");
    await page.waitForSelector("tbody tr.opens");
    const head = (name) => page.locator(`th:has(button[title="${name}"])`);
    const wide = async (name) => Math.round((await head(name).boundingBox()).width);
    const before = await wide("momentum");
    const edge = await head("momentum").locator(".width-handle").boundingBox();
    await page.mouse.move(edge.x + 4, edge.y + 10);
    await page.mouse.down();
    await page.mouse.move(edge.x + 64, edge.y + 10, { steps: 4 });
    await page.mouse.up();
    await until("it is wider", async () => Math.abs((await wide("momentum")) - before - 60) <= 2);
    const status = await wide("Status");
    await head("Status").locator("button").focus();
    await page.keyboard.press("Shift+ArrowRight");
    await until("wider by a key", async () => (await wide("Status")) === status + 16);
    await page.keyboard.press("Shift+Enter");
    await until("as wide as its cells", async () => (await wide("Status")) < status);
    const cut = await page.locator("tbody td:nth-child(3)").evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).length);
    equal(cut, 0, "cells of the fitted column that are cut");
    await head("momentum").locator(".width-handle").dblclick();
    await until("fitted", async () => (await wide("momentum")) < before);
    const fitted = await wide("momentum");
    const order = () => page.locator("th button").evaluateAll((all) => all.map((one) => one.title));
    const at = (await order()).indexOf("Status");
    await head("Status").locator("button").focus();
    await page.keyboard.press("Control+Shift+ArrowRight");
    await until("it has moved", async () => (await order()).indexOf("Status") === at + 1);
    await head("momentum").locator("button").dragTo(head("Step").locator("button"));
    await until("and another by the pointer", async () => (await order()).indexOf("momentum") <= at + 1);
    await page.reload();
    await page.waitForSelector("tbody tr.opens");
    check(Math.abs((await wide("momentum")) - fitted) <= 1, "its width after a reload");
    check((await order()).indexOf("momentum") <= at + 1, "its place after a reload");
    await page.click("button >> text=Columns");
    await page.click("[role=menuitem] >> text=Reset widths and order");
    await until("as at first", async () => (await wide("momentum")) === before && (await order()).indexOf("Status") === at);
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "a program has a page with the experiments and actors that it started; events lead to them": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/drivers");
    await until("the number of its experiments", async () => /2\d+4f1c22aa$/.test(await page.textContent("tbody tr.opens:has-text('tune_digits')")));
    await page.click("tbody tr.opens:has-text('tune_digits')");
    await until("its page", async () => (await page.textContent("h1")) === "tune_digits");
    const runs = page.locator('section:has(h2:text("Experiments of this program")) tbody tr.opens');
    await until("its experiments", () => runs.count().then((n) => n === 2));
    check((await page.locator('section:has(h2:text("Actors of this program")) tbody').textContent()).includes("TrainDigits"), "its actors");
    await runs.filter({ hasText: "resnet-width-sweep" }).click();
    await until("an experiment", async () => (await page.textContent("h1")) === "resnet-width-sweep");
    await page.click(".facts a >> text=tune_digits");
    await until("and back to its program", async () => (await page.textContent("h1")) === "tune_digits");
    await go("/events");
    const says = async (text) => until(text, async () => (await page.textContent("tbody")).includes(text));
    await says("Experiment digits started by program tune_digits");
    await says("Experiment resnet-width-sweep finished: best loss 0.0248, trial ");
    await says("Experiment tokenizer-baseline crashed: its program has left");
    await page.click("tbody tr:has-text('of digits failed') a >> nth=0");
    await until("the failed trial", async () => (await page.textContent(".page-head .state").catch(() => "")) === "failed");
    await go("/drivers/nobody");
    await until("what became of one that left", async () => (await page.textContent("[role=alert]")).includes("It has left"));
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "programs have the number of their living actors; objects say why the stores hold more than they": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/drivers");
    const living = (program) => [...still.world.tables.actors.values()].filter((one) => one.driver === program && one.state !== "dead").length;
    await until("the number", async () => (await page.locator("tbody tr:has-text('tune_digits') td.right").last().textContent()) === String(living("/home/ada/digits/build/tune_digits")));
    await go("/objects");
    await until("the difference", async () => (await page.textContent(".tools")).includes("in these objects; the sum above is what the stores took"));
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "a training run has a view of its own: what it does, its curves, the parts of a step, its group over time, its ranks": async () => {
    const server = await start({ trials: 40, still: true });
    const [run] = server.world.trainings;
    const { page, wrong, go, close } = await tab({ server });
    const card = (title) => page.locator(`.card:has(h2:text-is("${title}"))`);
    const tile = (name) => page.locator(`.tile:has(.tile-name:text-is("${name}")) b`).textContent();
    await go("/experiments");
    await until("its row", () => page.locator('tbody tr:has-text("training run")').count().then((n) => n === 1));
    await page.click('tbody tr:has-text("training run")');
    await until("its page", async () => (await page.textContent("h1")) === run.name);
    equal((await page.locator(".tabs a").allTextContents()).join(), "Training,Curves,All metrics", "its tabs");
    equal((await page.locator(".page-head .actions > button").allTextContents()).join(), "Stop,Archive", "a run cannot be paused, and has no further configurations");
    await until("its charts", () => page.locator("figure canvas").count().then((n) => n >= 8));
    equal((await page.locator(".stack:not(.side) .card h2").allTextContents()).join(), "loss,accuracy,Samples a second,Time of a step, by part,Workers, faults and changes over time,Ranks", "its cards");
    check((await page.textContent(".card[aria-label='Present state']")).startsWith("8 ranks train on 3 nodes. 5 ranks wait for rank 3.The run trains in generation 4"), await page.textContent(".card[aria-label='Present state']"));
    equal(await page.locator(".train-progress [role=meter]").getAttribute("aria-valuenow"), String(24 / 90), "what is done of the planned epochs");
    equal([await tile("train_loss"), await tile("Epochs"), await tile("Ranks")].join(), "0.1716,24.3,8", "its numbers");
    // The chart of steps, as a table.
    await card("Time of a step, by part").locator("button[aria-pressed]").click();
    equal(await card("Time of a step, by part").locator("tbody tr").count(), 24, "a row a report");
    equal((await card("Time of a step, by part").locator("thead th").allTextContents()).join(), "step,data wait,forward,backward,communication,optimizer,other", "the parts");
    equal((await card("Time of a step, by part").locator(".legend b").allTextContents()).join(), "6%,24%,46%,13%,5%,6%", "the shares of the last report");
    await page.selectOption("label.select:has-text('X axis') select", "epoch");
    await until("epochs", async () => (await card("Time of a step, by part").locator("tbody th").first().textContent()) === "24");
    check((await hash(page)).includes("along=epoch"), "the address says so");
    // Faults and changes: a list, and marks that say what they are.
    const events = card("Workers, faults and changes over time");
    equal((await events.locator("li").allTextContents()).map((text) => text.replace(/^[\d:]+/, "").slice(0, 52)).join("\n"), [
      "Training continues with 8 ranks, from step 655", "Fault: rank 2 (member 3 on node osprey) hangs: it ha", "Training continues with 8 ranks instead of 7, from s", "Rank 3 is slow: its steps take 4.2 times those of th",
      "Training continues with 7 ranks instead of 8, from s", "Rank 1 was lost: volador::train::RankActor 25b5441a ", "Training begins with 8 ranks"].join("\n"), "the events, newest first");
    await events.locator("summary").click();
    check((await events.locator("pre").textContent()).includes("Net::forward(at::Tensor) at resnet.cc:41"), "the lines of a hang");
    const box = await events.locator(".canvas").boundingBox();
    const at = (time) => box.x + 30 + ((time - run.started) / (server.world.now - run.started)) * (box.width - 42);
    await page.mouse.move(at(run.at(6.4) + 900), box.y + 14 + (1 - 7 / 8) * 114);
    await until("the cause of a change", async () => /7 ranks instead of 8, from step 257 after: volador::train::RankActor .* died/.test(await events.locator(".tip").textContent()));
    await page.mouse.move(box.x + 31, box.y + 100);
    await until("nothing under the pointer", () => events.locator(".tip").count().then((n) => n === 0));
    // The ranks.
    const ranks = card("Ranks").locator("tbody tr.opens");
    equal((await ranks.nth(7).locator("td").allTextContents()).join(), "7,running,osprey,GPU,41119,973,914,20 ms,waits for rank 3: sum of the gradients", "the last rank");
    equal(await ranks.nth(3).locator("td").last().textContent(), "forward pass for 2.4 s", "the slow one");
    await ranks.nth(1).locator("td").nth(1).click();
    await until("the page of a rank", async () => (await page.textContent("h1")) === "rank 1");
    equal(await page.locator(".page-head button >> text=Stop").count(), 0, "a rank is not stopped alone");
    await go("/experiments/" + run.name);
    // It changes by itself.
    await until("its charts again", () => page.locator("figure canvas").count().then((n) => n >= 8));
    run.report();
    run.put(run.rank_rows[1], { status: "failed", error: "killed by signal 9" });
    run.event(server.world.now, "fault", "killed by signal 9", { rank: 1, workers: 7, step: 1013 });
    run.count();
    await until("the fault", async () => (await page.textContent(".card[aria-label='Present state']")).startsWith("A rank was lost: the group forms again; 7 ranks are left."));
    await until("the next report", async () => (await tile("Epochs")) === "25");
    equal(await ranks.nth(1).locator("td").last().textContent(), "killed by signal 9", "why it failed");
    await page.click(".page-head button >> text=Stop");
    check((await page.textContent("dialog")).includes(`volador train stop ${run.name}`), "the same in a terminal");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "a training run of 64 ranks, one that has reported nothing, and one whose program left": async () => {
    const server = await start({ trials: 40, still: true });
    const wide = new TrainingRun(server.world, "wide", { ranks: 64 }), fresh = new TrainingRun(server.world, "fresh", { ranks: 4, epochs: 0 }), gone = new TrainingRun(server.world, "gone", { state: "crashed" });
    const { page, wrong, go, close } = await tab({ server });
    const state = () => page.textContent(".card[aria-label='Present state']");
    await go("/experiments/" + wide.name);
    await until("its ranks", () => page.locator("tbody tr.opens").count().then((n) => n > 5));
    check((await page.locator("tbody tr.opens").count()) < 40, "only the rows in sight");
    await page.fill("[data-filter]", "rank:63");
    await until("one of them", () => page.locator("tbody tr.opens").count().then((n) => n === 1));
    check((await hash(page)).includes("r_q=rank%3A63"), "the address has the filter");
    await go("/experiments/" + fresh.name);
    await until("that nothing was reported", async () => (await page.textContent("main")).includes("The curves begin when the first call of train() returns."));
    check((await state()).startsWith("4 ranks train on 3 nodes."), await state());
    await go("/experiments/" + gone.name);
    await until("that its program left", async () => /^Its program left after 4 min 5\d s without ending the run/.test(await state()));
    equal(await page.locator("tbody .state >> text=running").count(), 0, "ranks that still run");
    equal(await page.locator(".page-head button >> text=Resume").count(), 0, "a run that can be resumed");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "the overview names the request that has waited longest, in the page's language": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, close } = await tab({ server, lang: "zh-CN" });
    await until("the placement group", async () => (await page.textContent(".warnings")).includes("最早的是 放置组 big-trainers"));
    const row = server.world.tables.queue.get("q1a2b3c4d5e6f702");
    server.world.put("queue", { ...row, since_ms: row.since_ms - 3_600_000 });
    await until("an older one", async () => (await page.textContent(".warnings")).includes("最早的是 Embedder 77ab01"));
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
});
