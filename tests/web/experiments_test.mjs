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
const at = () => page.getAttribute("#main", "data-at");
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
    "the page of a trial shows where the time of its batches goes, and what its job uses": async () => {
      await until("the first one is completed", async () => (await experiment(first)).state === "COMPLETED", 90_000);
      const { run: name } = await experiment(first);
      const { rows: trials } = await answer(`/api/v1/determined/experiments/${first}/trials`);
      await go(`/experiments/${name}/trials/trial-${trials[0].id}`);
      const card = page.locator(".card", { hasText: "Time of a batch" });
      await until("its parts", async () => (await card.locator(".legend").textContent().catch(() => "")).includes("train_batch()"));
      equal((await card.locator(".legend li").allTextContents()).join("; "), "next batch 8%; to the device 4%; train_batch() 83%; metrics 4%", "their shares in the last report");
      await page.waitForSelector(".card:has-text('Samples a second') canvas");
      await page.waitForSelector(".card:has-text('Resource')");
      equal(await page.locator(".card", { hasText: "Last metrics" }).locator("dt").allTextContents().then((all) => all.join()), "loss", "metrics with a last value");
      await until("its checkpoint", async () => /[0-9a-f]{8}batch 20, 4(\.0)? KiB/.test(await page.locator(".card", { hasText: "Checkpoints" }).textContent()));
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
      for (const [i, one] of many.entries()) Object.assign(one, { workspace: `w${i % 100}`, project: `p${i % 5000}` });
      await go("/projects");
      await until("5,000 projects of the newest experiments", async () => (await page.textContent(".tools").catch(() => "")).includes("5,000 rows") && (await page.textContent(".tools")).includes("The newest 10,000 experiments are counted"));
      check((await rows()) < 100, "rows in the document");
      await page.unroute("**/api/v1/determined/experiments?**");
    },
    "experiments are moved to a project, one and many, with the head's error at its field": async () => {
      const { run: name } = await experiment(first);
      await go(`/experiments/${name}`);
      await until("it is in no project", async () => (await page.textContent(".page-head")).includes("Project: Uncategorized"));
      await page.click(".page-head button:has-text('Move to project')");
      const fill = async (workspace, project) => {
        await page.locator("dialog label", { hasText: "Workspace" }).locator("input").fill(workspace);
        await page.locator("dialog label", { hasText: "Project" }).locator("input").fill(project);
      };
      await page.waitForSelector("dialog .move-project");
      await fill("vision", "");
      await page.click("dialog button.primary");
      await until("the error", async () => (await page.textContent("dialog .field.wrong").catch(() => "")).includes("workspace and project: expected two names"));
      check((await page.textContent("dialog .field.wrong")).startsWith("Project"), "at the field that is empty");
      await fill("vision", "hand written");
      check((await page.textContent("dialog .code")).includes(`volador experiment move ${first} --workspace=vision --project='hand written'`), "the same in a terminal");
      await page.click("dialog button.primary");
      await until("its page links it", () => page.locator(".page-head a:has-text('vision / hand written')").count().then((n) => n === 1));
      await go("/experiments?of=configured");
      await until("the list", async () => (await rows()) === 3);
      for (const box of await page.locator("tbody .pick input").all()) if (!new RegExp(`\\b${first} digits`).test(await box.getAttribute("aria-label"))) await box.check();
      await page.click(".many button:has-text('Move to project')");
      await page.waitForSelector("dialog .move-project");
      await fill("vision", "faces");
      await page.click("dialog button.primary");
      await until("they are moved", async () => (await answer("/api/v1/determined/experiments")).rows.filter((one) => one.project === "faces").length === 2);
    },
    "the page of projects counts experiments, and a project is a list of its own": async () => {
      const all = (await answer("/api/v1/determined/experiments")).rows;
      const places = (archived) => new Set(all.filter((one) => archived || !one.archived).map((one) => `${one.workspace}/${one.project}`)).size;
      check(places(true) > places(false), "one project has only archived experiments");
      await page.keyboard.press("Control+k");
      await page.fill(".palette input", "Projects");
      await page.keyboard.press("Enter");
      await until("the projects", async () => (await at()) === "/projects" && (await rows()) === places(false));
      await page.click(".tools button:has-text('Archived (1)')");
      await until("with archived ones", async () => (await rows()) === places(true));
      check((await page.textContent("tbody")).includes("Uncategorized"), "those of no project");
      await page.click("tbody tr:has-text('hand written') .state-counts a");
      await until("those of a state", async () => (await at()) === "/projects/vision/hand%20written?state=COMPLETED" && (await rows()) === 1);
      equal(await page.textContent("h1"), "hand written", "its heading");
      check(!(await page.textContent(".tools")).includes("Project"), "no filter of projects");
      await page.click(".trail a:has-text('vision')");
      await until("the workspace", async () => (await at()) === "/projects/vision" && (await rows()) === 2);
      await page.click(".trail a:has-text('Projects')");
      await page.click(".tabs a:has-text('Workspaces')");
      await until("the workspaces", async () => /vision\s*2/.test(await page.textContent("tbody").catch(() => "")));
      await go("/projects/vision/none");
      await until("an empty project", async () => (await page.textContent("main")).includes("No experiment is in this project"));
      const { run: name } = await experiment(first);
      await go(`/experiments/${name}`);
      await page.click(".page-head button:has-text('Move to project')");
      await page.click("dialog button:has-text('Remove from its project')");
      await until("it is in none", async () => (await experiment(first)).project === "");
      await page.click(".page-head a:has-text('Uncategorized')");
      await until("those in none", async () => (await at()) === "/uncategorized" && (await page.textContent("tbody").catch(() => "")).includes("digits"));
    },
    "notes are Markdown that loads and runs nothing, and a text that takes too long stays plain": async () => {
      const { run: name } = await experiment(first);
      const text = "# Result\n\nThe **loss** is 0.1.\n\n| lr | loss |\n|---|---|\n| 0.1 | 0.2 |\n\n<script>window.hit = 1</script>\n<img src=x onerror='window.hit = 1'>\n\n![chart](https://example.org/a.png) [bad](javascript:window.hit=1) [paper](https://example.org/)\n\n```\nx = 1\n```\n";
      await go(`/experiments/${name}`);
      await page.click("button:has-text('Write a note')");
      await page.fill(".note-form textarea", text);
      await page.click(".note-form button:has-text('Preview')");
      await until("the preview", async () => (await page.textContent(".note-shown h3").catch(() => "")) === "Result");
      await page.click(".note-form button.primary");
      await until("the note", async () => (await page.textContent(".note-text.markdown strong").catch(() => "")) === "loss" && (await page.locator(".note-form").count()) === 0);
      equal((await experiment(first)).notes, text, "the head keeps them");
      equal(await page.locator(".markdown img, .markdown script, .markdown [onerror], .markdown a:not([rel='noopener noreferrer'])").count(), 0, "elements that load or run");
      equal((await page.locator(".markdown a").evaluateAll((links) => links.map((one) => one.getAttribute("href")))).join(), "https://example.org/a.png,https://example.org/", "its links");
      check((await page.textContent(".markdown")).includes("[bad](javascript:window.hit=1)"), "no link that is a program");
      equal(await page.evaluate(() => window.hit), undefined, "what ran");
      await go(`/experiments/${name}?tab=configuration`);
      await until("the same beside the configuration", async () => (await page.textContent(".note-text.markdown h3").catch(() => "")) === "Result");
      const edit = (notes) => page.evaluate(([id, notes]) => fetch(`/api/v1/determined/experiments/${id}:edit`, { method: "POST", headers: { "X-Volador-Request": "1", "Content-Type": "application/json" }, body: JSON.stringify({ notes }) }).then((reply) => reply.status), [first, notes]);
      equal(await edit("- ".repeat(300) + "a\n".repeat(20_000)), 200, "the head takes it");
      await until("the slow one", async () => (await page.textContent("p.note-text").catch(() => "")).startsWith("- - "));
      await until("its parser, beside the page", () => page.workers().length === 1);
      await until("the parser is ended", () => page.workers().length === 0);
      check((await page.textContent("p.note-text")).startsWith("- - "), "the note stays plain");
      equal(await edit(text), 200, "the first one again");
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
      const { rows: trials } = await answer(`/api/v1/determined/experiments/${first}/trials`);
      await pages.axe(axe_source, [`/experiments/${name}/trials/trial-${trials[0].id}`, "/new_experiment", `/experiments/${name}?tab=configuration&show=differences`, `/experiments/${name}?tab=code`, `/experiments/${name}?tab=checkpoints`, `/experiments/${name}`, "/experiments?of=configured", "/projects", "/projects?of=workspaces", "/projects/vision/faces"]);
    },
    "nothing went wrong in the console, and no other host was asked": async () => {
      equal(wrong.join("\n"), "", "the console");
    },
  });
} finally {
  await browser.close();
  cluster.close();
}
