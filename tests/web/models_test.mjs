// Tests the pages of the model registry with a real head: models_test.mjs VOLADOR.
import { join } from "node:path";
import { axe_source, check, equal, open_browser, run, until, web } from "./harness.mjs";

const { open_pages, start } = await import(join(web, "dev/experiments.mjs"));
const browser = await open_browser();
const cluster = start(process.argv[2]);
const pages = open_pages(browser, cluster);
const { go, wrong } = pages;

let page, experiment;
const at = () => page.getAttribute("#main", "data-at");
const answer = (path) => page.evaluate(async (from) => (await fetch(from)).json(), path);
const field = (label) => page.locator("dialog label", { hasText: label }).locator("input, select, textarea").first();
const main = () => page.textContent("#main");

try {
  experiment = cluster.create(cluster.config);
  await run("web_models", {
    "a model is created on the page": async () => {
      page = await pages.tab();
      await go("/models", page);
      await until("there is none", async () => (await main()).includes("No models"));
      await page.click(".page-head button:has-text('New model')");
      await field("Name").fill("digits");
      await field("Description").fill("Small nets");
      await field("Labels").fill("vision, small");
      await page.click("dialog .primary");
      await until("its page", async () => (await at()) === "/models/digits");
      await until("it has no version", async () => (await main()).includes("No versions"));
      check((await main()).includes("Small nets"), "its description");
    },
    "a checkpoint of an experiment becomes a version": async () => {
      await until("the experiment is completed", async () => (await answer(`/api/v1/determined/experiments/${experiment}`)).state === "COMPLETED", 90_000);
      const { run: name } = await answer(`/api/v1/determined/experiments/${experiment}`);
      await go(`/experiments/${name}?tab=checkpoints`, page);
      await page.locator("tbody button:has-text('Register')").first().click();
      await field("Comment").fill("The first one");
      check((await page.textContent("dialog")).includes("volador model register-version digits"), "the same in a terminal");
      await page.click("dialog .primary");
      await until("the model", async () => (await at()) === "/models/digits");
      await until("its version", async () => (await main()).includes("The first one"));
      equal((await answer("/api/v1/models/digits/versions")).rows.length, 1, "versions");
    },
    "an alias names a version, and the list shows it": async () => {
      await page.locator("tbody button:has-text('Promote')").click();
      await page.click("dialog .primary");
      await until("the alias", async () => (await main()).includes("production → 1"));
      await go("/models", page);
      await until("in the list", async () => /digits.*production/s.test(await page.textContent("tbody")));
      check((await page.textContent("tbody")).includes("vision"), "a label");
    },
    "notes of a model and of a version are edited and kept": async () => {
      await page.locator("tbody a:has-text('digits')").click();
      await page.click(".page-head button:has-text('Edit')");
      const notes = page.locator("dialog textarea[aria-label=Notes]");
      await notes.fill("Trained on **8 × 8** pixels.\n\n<img src=x onerror=alert(1)> [paper](https://example.org/) [bad](javascript:alert(1))");
      await page.click("dialog button:has-text('Preview')");
      await until("the preview", async () => (await page.textContent("dialog .note-shown strong").catch(() => "")) === "8 × 8");
      await page.click("dialog button:has-text('Text')");
      await notes.fill("Trained on **8 × 8** pixels.");
      await page.click("dialog .primary");
      await until("the notes", async () => (await page.locator(".note-text").allTextContents()).join() === "Trained on 8 × 8 pixels." && (await page.textContent(".markdown strong").catch(() => "")) === "8 × 8");
      await page.locator("tbody a:has-text('1')").first().click();
      await until("the version", async () => (await at()) === "/models/digits/1");
      const { checkpoint } = await answer("/api/v1/models/digits/versions/1");
      await until("its checkpoint", async () => (await main()).includes(checkpoint.slice(0, 8)));
      check((await main()).includes("volador model download digits@1") || (await main()).includes("volador model download"), "how to download it");
      await page.click(".page-head button:has-text('Edit')");
      await notes.fill("Loss 0.01.");
      await page.click("dialog .primary");
      await until("its notes", async () => (await page.locator(".note-text").allTextContents()).join() === "Loss 0.01.");
      equal((await answer("/api/v1/models/digits/versions/1")).notes, "Loss 0.01.", "the head keeps them");
      equal((await answer("/api/v1/models/digits")).notes, "Trained on **8 × 8** pixels.", "those of the model too");
      await page.locator("#main a:has-text('trial-')").first().click();
      await until("its trial", async () => /\/trials\/trial-\d+$/.test(await at()));
    },
    "no part has findings of axe, in both languages, both themes and on a phone": () => pages.axe(axe_source, ["/models", "/models/digits", "/models/digits/1"]),
    "nothing went wrong in the console, and no other host was asked": async () => equal(wrong.join("\n"), "", "the console"),
  });
} finally {
  await browser.close();
  cluster.close();
}
