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
});
await browser.close();
await still.close();
process.exit();  // A case that failed may have left its server listening.
