// What the page's charts, comparisons and phone layout do when somebody uses them, in Chromium over a made-up cluster.
// VOLADOR_WEB_CASES=REGEX runs some.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { check, equal, open_browser, run, skip, until, web } from "./harness.mjs";
import { settled, tabs_of } from "./tab.mjs";

if (!existsSync(join(web, "node_modules/ws"))) skip("no node_modules; npm ci in dashboard/web");
const browser = await open_browser();
const { start } = await import(join(web, "dev/server.mjs"));
const still = await start({ trials: 120, still: true });
const tab = tabs_of(browser, still);
const trials = [...still.world.trials.get("digits").values()];
const hash = (page) => page.evaluate(() => location.hash);

await run("web_views", {
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
    for (const path of ["/", "/experiments", "/experiments/digits", "/experiments/digits?tab=trials", "/experiments/digits?tab=parallel", "/experiments/digits?tab=gantt", "/experiments/digits?tab=pareto",
      `/experiments/digits/trials/${trials[0].id}`, `/experiments/digits/compare?of=${trials[0].id}%2C${trials[1].id}`, "/nodes/osprey", "/actors", `/actors/${actor}`, "/queue", "/logs?node=heron", "/logs?node=heron&view=all", "/tokens", "/studies/boosting", "/groups/a71c0f2255d04e10", "/objects?tab=stores"]) {
      await go(path);
      await settled(page);
      await page.locator("#main .popover-button").evaluateAll((all) => all.forEach((one) => one.click()));
      // Links within text, and boxes whose whole cell is pressed, are as high as their line.
      small.push(...await page.locator("#main :is(button, select, [role=tab], a.button, input:not([type=checkbox]), .status-list a, .files a, .warnings a, .legend-entry)").evaluateAll((all, at) => all.filter((one) => one.offsetParent && !one.closest("p, .notice"))
        .map((one) => [one.closest("label.filter, label.range") ?? one, one]).filter(([box]) => box.getBoundingClientRect().height < 39.5).map(([box, one]) => `${at}: ${one.tagName} ${one.className} ${(one.textContent || one.getAttribute("aria-label") || "").slice(0, 24)} ${Math.round(box.getBoundingClientRect().height)}`), path));
      const [left, right] = await page.evaluate(() => { const box = document.querySelector('[role=tab][aria-selected="true"]')?.getBoundingClientRect(); return [box?.left ?? 0, box?.right ?? 0]; });
      check(left >= 0 && right <= 390, `${path}: the chosen tab stands from ${left} to ${right}`);
    }
    equal([...new Set(small)].join("\n"), "", "too small");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
});
await browser.close();
await still.close();
process.exit();  // A case that failed may have left its server listening.
