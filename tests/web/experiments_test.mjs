// Tests the pages of experiments of a configuration with a real head: experiments_test.mjs VOLADOR.
import { join } from "node:path";
import { axe_source, check, equal, open_browser, run, until, web } from "./harness.mjs";

const { open_pages, start } = await import(join(web, "dev/experiments.mjs"));
const browser = await open_browser();
const cluster = start(process.argv[2]);

const pages = open_pages(browser, cluster);
const { tab, wrong } = pages;
let page, first;
const go = (path, at = page) => pages.go(path, at);
const answer = (path) => page.evaluate(async (from) => (await fetch(from)).json(), path);
const experiment = (id) => answer(`/api/v1/determined/experiments/${id}`);
const rows = () => page.locator("tbody tr.opens").count();
// The text in the editor, which renders only what is in sight.
const text = () => page.evaluate(() => [...document.querySelector(".config-editor").shadowRoot.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n"));
const field = (label) => page.locator(".config-sides label", { hasText: label }).locator("input, select").first();
const verdict = (wanted) => until(wanted, async () => (await page.textContent(".config-acts .prediction")).includes(wanted));

try {
  first = cluster.create(cluster.config);
  await run("web_experiments", {
    "the form and the text are one configuration, and neither loses what only the other has": async () => {
      page = await tab();
      await go("/experiments");
      await page.click(".page-head a:has-text('New experiment')");
      await page.waitForSelector(".cm-content");
      const own = "# Mine.\nname: one   # a name\nmine: {x: 1}\nentrypoint: python3 train.py\nhyperparameters:\n  lr: 0.1\nsearcher:\n  name: single\n  metric: loss\n  max_length: {batches: 20}\n";
      await page.locator(".config-text input[type=file]").setInputFiles({ name: "own.yaml", mimeType: "text/yaml", buffer: Buffer.from(own) });
      await verdict("1 error");
      const name = field("Name");
      await name.fill("two: 2");
      await until("the name in the text", async () => (await text()).includes('name: "two: 2"   # a name'));
      await name.fill("two");
      await page.locator(".config-sides label", { hasText: "Method" }).locator("select").selectOption("random");
      await field("Trials").fill("3");
      await until("the searcher in the text", async () => /name: random\n.*metric: loss\n.*max_length: \{batches: 20\}\n.*max_trials: 3/.test(await text()));
      equal((await text()).split("\n").slice(0, 3).join("|"), "# Mine.|name: two   # a name|mine: {x: 1}", "comments and an unknown key");
      await page.locator(".cm-content").press("Control+End");
      await page.keyboard.type("max_restarts: 7");
      await until("the form follows the text", async () => (await field("Restarts of a trial at most").inputValue()) === "7");
    },
    "errors of the head stand in their lines, and lead there": async () => {
      await until("the unknown key is marked", () => page.locator(".cm-lintRange-error").count().then((n) => n === 1));
      equal(await page.locator(".cm-lintRange-error").textContent(), "mine", "what is marked");
      check(await page.locator(".config-acts .primary").isDisabled(), "no experiment with errors");
      await page.click(".findings .link");
      check((await page.locator(".findings .link").textContent()).includes("line 3, column 1"), "its place");
      await until("the editor has the focus", async () => (await page.evaluate(() => document.querySelector(".config-editor").shadowRoot.activeElement?.className ?? "")).includes("cm-content"));
      await page.keyboard.press("Shift+End");
      await page.keyboard.press("Delete");  // Typing over a selection, Chromium itself writes a style that the policy refuses.
      await page.keyboard.type("debug: tr");
      await until("values are offered", () => page.locator(".cm-tooltip-autocomplete li:has-text('true')").count().then((n) => n === 1));
      await page.click(".cm-tooltip-autocomplete li:has-text('true')");  // Enter counts only when the list has been there for a while.
      await verdict("valid");
      await page.keyboard.press("End");
      await page.keyboard.type("\nsch");
      await until("keys are offered with their meaning", async () => (await page.locator(".cm-completionInfo").textContent().catch(() => "")).includes("Default: 100"));
      await page.keyboard.press("Escape");
      await page.keyboard.press("Control+z");
      await until("the key is gone", async () => !(await text()).includes("sch"));
    },
    "what the search will run stands beside its configuration": async () => {
      const preview = (wanted) => until(wanted, async () => (await page.textContent(".search-preview").catch(() => "")).includes(wanted));
      await preview("3 trials");
      await preview("60 batches in total");
      await page.locator(".config-sides label", { hasText: "Method" }).locator("select").selectOption("adaptive_asha");
      await field("Trials").fill("16");
      await preview("16 trials");
      check((await page.locator(".preview-bars li").count()) > 1 && (await page.locator(".preview-brackets tbody tr").count()) > 0, "lengths and brackets");
      await page.click("button:has-text('Another seed')");
      await preview("Simulated with seed 1");
      await page.locator(".config-sides label", { hasText: "Method" }).locator("select").selectOption("random");
      await field("Trials").fill("3");
      await preview("3 trials");
    },
    "a folder travels, without what its rules leave out, and the experiment runs": async () => {
      cluster.write(".voladorignore", "*.bin\n");
      await page.locator("input[data-code=folder]").setInputFiles(cluster.code);
      await until("the files", async () => (await page.textContent(".code-chosen")).includes("1 file stays behind"));
      await verdict("valid");
      await page.click(".config-acts .primary");
      await until("its page", async () => /^\/experiments\/two-\d+/.test(await page.getAttribute("#main", "data-at")));
      const id = Number(/\d+$/.exec(await page.getAttribute("#main", "data-at"))[0]);
      await until("it is completed", async () => (await experiment(id)).state === "COMPLETED", 90_000);
      const made = await experiment(id);
      equal(made.trials, 3, "its trials");
      check(made.original_config.includes("name: two   # a name"), "the text as it was written");
    },
    "a fork takes the configuration and the code, and the difference of both is shown": async () => {
      const { run: name } = await experiment(first);
      await go(`/experiments/${name}`);
      await page.click(".page-head .actions a:has-text('Fork')");
      await page.waitForSelector(".cm-content");
      check((await page.textContent(".new-experiment")).includes(`The code of experiment ${first}.`), "its code");
      await field("Trials").fill("1");
      await verdict("valid");
      await page.click(".config-acts .primary");
      await until("its page", async () => /^\/experiments\/digits-\d+/.test(await page.getAttribute("#main", "data-at")) && !(await page.getAttribute("#main", "data-at")).endsWith(name));
      const fork = Number(/\d+$/.exec(await page.getAttribute("#main", "data-at"))[0]);
      equal((await experiment(fork)).parent, first, "its parent");
      await go(`/experiments/digits-${fork}?tab=configuration&show=differences`);
      await page.waitForSelector(".diff");
      equal((await page.locator(".diff .gone").allTextContents()).join("").trim(), "12−  max_trials: 2", "what is gone");
      equal((await page.locator(".diff .come").allTextContents()).join("").trim(), "12+  max_trials: 1", "what has come");
      await page.click(".diff-tools button:has-text('Unified')");
      await until("one column", () => page.locator(".diff tr:has(.come)").count().then((n) => n === 1));
      await page.click(".diff-tools button:has-text('Complete')");
      await until("the complete ones differ", () => page.locator(".diff .gone").count().then((n) => n > 0));
    },
    "the code of an experiment is read in the browser, and compared": async () => {
      cluster.write("train.py", "print('other')\n");
      cluster.write("more.py", "x = 1\n");
      const other = cluster.create(cluster.config, "--paused");
      const { run: name } = await experiment(other);
      await go(`/experiments/${name}?tab=code`);
      await page.waitForSelector(".code-tree button");
      check((await page.textContent(".code-tree")).includes("net.py"), "a file in a folder");
      await page.click(".code-tree button:has-text('train.py')");
      await until("its text", async () => (await page.textContent(".code-text pre")) === "print('other')");
      await page.locator(".diff-tools select").selectOption(String(first));
      await until("the difference", async () => (await page.textContent(".diff-tools")).includes("1 changed, 2 added, 1 removed"));
      check((await page.locator(".diff .come").allTextContents()).join().includes("print('other')"), "the new line");
      await page.click(".code-tree button:has-text('models')");
      await until("the folder is closed", async () => !(await page.textContent(".code-tree")).includes("net.py"));
    },
    "the list has columns of one's own choice, filters with counts, and actions on many": async () => {
      await go("/experiments?of=configured");
      await until("all four", async () => (await rows()) === 4);
      await page.click(".tools button:has-text('Columns')");
      await page.locator(".column-choice label", { hasText: /^lr$/ }).locator("input").check();
      await page.locator(".column-choice label", { hasText: /^User$/ }).locator("input").uncheck();
      await page.keyboard.press("Escape");
      const heads = async () => (await page.locator("thead th").allTextContents()).map((one) => one.trim());
      check((await heads()).includes("lr") && !(await heads()).includes("User"), "the columns");
      await page.reload();
      await until("they are kept", async () => (await heads()).includes("lr"));
      await until("a hyperparameter of the best trial", async () => (await page.locator("tbody tr.opens:has-text('two') td").allTextContents()).some((one) => one === "0.1"));
      await page.locator(".tools label", { hasText: "Label" }).locator("select").selectOption("baseline");
      await until("three of them", async () => (await rows()) === 3);
      await page.locator(".tools label", { hasText: "State" }).locator("select").selectOption("PAUSED");
      await until("one is paused", async () => (await rows()) === 1);
      await page.locator("tbody .pick input").check();
      await page.click(".many button:has-text('Kill')");
      check((await page.textContent("dialog")).includes("volador experiment kill"), "the same in a terminal");
      await page.click("dialog button.primary");
      await until("nothing is paused", async () => (await page.textContent("main")).includes("No experiment fits these filters"));
      await page.click("main button:has-text('Clear filters')");
      await until("it is canceled", async () => (await page.locator("tbody tr:has-text('canceled')").count()) === 1);
      await page.locator("tbody tr:has-text('canceled') .pick input").check();
      await page.click(".many button:has-text('Archive')");
      await until("it is out of sight", async () => (await rows()) === 3);
      await page.click(".tools button:has-text('Archived (1)')");
      await until("and back", async () => (await rows()) === 4);
    },
    "ten thousand experiments are a table of the rows in sight": async () => {
      const [row] = (await answer("/api/v1/determined/experiments")).rows;
      const many = Array.from({ length: 10_000 }, (_, i) => ({ ...row, archived: false, id: i + 1, name: `run-${i + 1}`, created_ms: row.created_ms + i, state: i % 2 ? "COMPLETED" : "ERROR", labels: [`part-${i % 7}`] }));
      await page.route("**/api/v1/determined/experiments?**", (route) => route.fulfill({ json: { rows: many, total: many.length } }));
      await go("/experiments");
      await go("/experiments?of=configured");
      await until("the newest", async () => (await page.locator("tbody tr.opens").first().textContent()).includes("run-10000"));
      check((await rows()) < 100, "rows in the document");
      await page.locator(".scroll").evaluate((box) => { box.scrollTop = box.scrollHeight; });
      await until("the oldest", async () => (await page.locator("tbody tr.opens").last().textContent()).includes("run-1"));
      await page.fill("[data-filter]", "run-4321");
      await until("one of them", async () => (await rows()) === 1);
      await page.unroute("**/api/v1/determined/experiments?**");
    },
    "a resource of Katib stands above the configuration that runs it": async () => {
      const { id, run: name } = await experiment(first);
      const resource = { kind: "Experiment", namespace: "team", name: "grid", version: 3, object: { kind: "Experiment", metadata: { name: "grid" }, status: { conditions: [{ type: "Succeeded", status: "True", message: "the goal is reached", lastTransitionTime: "2026-01-01T00:00:00Z" }], currentOptimalTrial: { bestTrialName: "grid-7", parameterAssignments: [{ name: "lr", value: "0.03" }], observation: { metrics: [{ name: "loss", latest: "0.25" }] } } } } };
      await page.route(`**/api/v1/determined/experiments/${id}`, async (route) => route.fulfill({ json: { ...(await (await route.fetch()).json()), katib: "team/grid" } }));
      await page.route("**/api/v1/katib/resources?*", (route) => route.fulfill({ json: { rows: [resource] } }));
      await go(`/experiments/${name}?tab=configuration`);
      await until("its optimal trial", async () => /grid-7.*loss.*0\.25.*lr.*0\.03/.test(await page.textContent(".config-shown")));
      check((await page.textContent(".katib-conditions")).includes("Succeeded True the goal is reached"), "its conditions");
      await page.click(".katib-part summary");
      check((await page.textContent(".katib-part pre")).includes("kind: Experiment\nmetadata:\n  name: grid\n"), "its YAML");
      await page.unrouteAll();
    },
    "no part has findings of axe, in both languages, both themes and on a phone": async () => {
      const { run: name } = await experiment(first);
      await pages.axe(axe_source, ["/new_experiment", `/experiments/${name}?tab=configuration&show=differences`, `/experiments/${name}?tab=code`, `/experiments/${name}?tab=checkpoints`, "/experiments?of=configured"]);
    },
    "nothing went wrong in the console, and no other host was asked": async () => {
      equal(wrong.join("\n"), "", "the console");
    },
  });
} finally {
  await browser.close();
  cluster.close();
}
