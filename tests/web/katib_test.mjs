// Tests the pages of Katib's resources with a real head: katib_test.mjs VOLADOR.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { axe_source, check, equal, open_browser, run, until, web } from "./harness.mjs";

const { open_pages, start } = await import(join(web, "dev/experiments.mjs"));
const browser = await open_browser();
const cluster = start(process.argv[2]);
const pages = open_pages(browser, cluster);
const { go, wrong } = pages;

// The resource with which the page begins, with another name, a second parameter and trials that print what they got.
const first = readFileSync(join(web, "src/pages/katib_first.yaml"), "utf8");
const changed = (text, changes) => Object.entries(changes).reduce((now, [from, to]) => {
  check(now.includes(from), `katib_first.yaml has no ${from}`);
  return now.replace(from, () => to);
}, text);
const resource = (name, most, more = "") => changed(first, {
  "name: random\n": `name: ${name}\n  namespace: team\n`, "goal: 0.01": "goal: 0.0001", "maxTrialCount: 6\n": `maxTrialCount: ${most}\n  resumePolicy: LongRunning\n${more}`,
  "  trialTemplate:": "    - {name: optimizer, parameterType: categorical, feasibleSpace: {list: [sgd, adam]}}\n  trialTemplate:",
  "    trialSpec:": "      - {name: optimizer, reference: optimizer}\n    trialSpec:",
  [/command: .*/.exec(first)[0]]: 'command: [bash, -c, "echo with ${trialParameters.optimizer}; echo loss=${trialParameters.learningRate}"]',
});

let page;
const put = (text) => page.locator(".config-text input[type=file]").setInputFiles({ name: "resources.yaml", mimeType: "text/yaml", buffer: Buffer.from(text) });
const verdict = (wanted) => until(wanted, async () => (await page.textContent(".config-acts .prediction")).includes(wanted));
// The input of a field of the form.
const field = (label, within = page) => within.locator(".field", { has: page.locator("label > span", { hasText: new RegExp(`^${label}$`) }) }).locator("input, select, textarea").first();
const at = () => page.getAttribute("#main", "data-at");
const succeeded = () => page.locator("tbody tr:has-text('Succeeded')").count();

try {
  await run("web_katib", {
    "the head checks resources while they are written, and errors stand in their lines": async () => {
      page = await pages.tab();
      await go("/new_experiment", page);
      await page.click(".page-head a:has-text('Katib')");
      await page.waitForSelector(".katib-apply .cm-content");
      await verdict("Experiment random will be created");
      await put(resource("grid", 3, "  maxFailedTrialCont: 1\n"));
      await verdict("1 error");
      check((await page.textContent(".findings")).includes("did you mean maxFailedTrialCount"), "the nearest key: " + (await page.textContent(".findings")));
      check((await page.textContent(".findings .link")).includes("line 16, column 3"), "its place");
      equal(await page.locator(".cm-lintRange-error").textContent(), "maxFailedTrialCont", "what is marked");
      check(await page.locator(".config-acts .primary").isDisabled(), "nothing with errors is applied");
      await put(resource("grid", 3));
      await verdict("Experiment grid will be created");
      check((await page.textContent(".katib-apply")).includes("Experiment team/grid will be created"), "with its namespace");
    },
    "an applied experiment shows the objective of its trials, their conditions, jobs and logs": async () => {
      await page.click(".config-acts .primary");
      await until("its page", async () => /^\/experiments\/grid-\d+\?tab=katib/.test(await at()), 30_000);
      await until("three trials", async () => (await succeeded()) === 3, 120_000);
      check((await page.textContent("main")).includes("Minimize loss") && (await page.textContent("main")).includes("Goal 1e−4"), "the objective");
      const heads = (await page.locator("thead th").allTextContents()).map((one) => one.trim());
      for (const name of ["loss", "lr", "optimizer", "Job", "Logs"]) check(heads.includes(name), "a column " + name);
      await page.click(".chart-tools .icon-button");
      equal(await page.locator(".data-table tbody tr").count(), 3, "the numbers of the plot");
      await page.click(".chart-tools .icon-button");
      await page.locator(".chart-tools select").selectOption({ label: "lr" });
      await until("the parameter in the address", async () => (await at()).includes("x=p.lr"));
      const here = await at();
      await page.locator("tbody a[href^='#/jobs/']").first().click();
      await until("its job", async () => (await at()).startsWith("/jobs/job-"));
      await go(here, page);
      await page.locator("tbody a[href^='#/logs']").first().click();
      await until("its output", async () => /with (sgd|adam)/.test(await page.textContent("main")), 30_000);
      await go(here, page);
      await page.locator("tbody a[href*='/trials/trial-']").first().click();
      await until("its page", async () => /\/trials\/trial-\d+$/.test(await at()));
    },
    "a resource is edited: the head says what changes, and more trials run": async () => {
      await page.click(".trail a:has-text('grid-')");
      await page.click(".page-head a:has-text('Configuration')");
      await until("its conditions", async () => (await page.textContent(".katib-conditions")).includes("Succeeded True"));
      await page.click(".config-shown a:has-text('Edit')");
      await page.waitForSelector(".katib-apply .cm-content");
      await verdict("Experiment grid stays as it is");
      await put(resource("grid", 3).replace("minimize", "maximize"));
      await verdict("1 error");
      await put(resource("grid", 4));
      await verdict("Experiment grid will be changed");
      await page.click(".config-acts .primary");
      await until("the fourth trial", async () => (await succeeded()) === 4, 120_000);
    },
    "a form writes the resource: settings by algorithm, errors at their fields": async () => {
      await go("/experiments", page);
      await go("/new_experiment?of=katib", page);
      const row = (name) => page.locator("fieldset.katib-row", { has: page.locator("legend", { hasText: new RegExp(`^${name}$`) }) }).first();
      const error = (text) => until("an error: " + text, async () => (await page.locator(".config-form .field-error").allTextContents()).some((one) => one.includes(text)));
      await until("the algorithms", async () => (await field("Search algorithm").locator("option").count()) > 8);
      await field("Name").fill("made");
      await field("Namespace").fill("team");
      await verdict("Experiment made will be created");
      await field("Search algorithm").selectOption("tpe");
      equal(await field("gamma").getAttribute("placeholder"), "0 < x < 1", "the range of a setting");
      await field("gamma").fill("2");
      await error("setting gamma of algorithm tpe");
      equal(await field("Search algorithm").getAttribute("aria-invalid"), "true", "the field that the error is about");
      check(await page.locator(".config-acts .primary").isDisabled(), "nothing with errors is applied");
      await field("gamma").fill("0.2");
      await field("random_state").fill("7");
      await verdict("Experiment made will be created");
      await field("Minimum", row("lr")).fill("1");
      await error("expected less than max (0.1), got 1");
      equal(await field("Minimum", row("lr")).getAttribute("aria-invalid"), "true", "the bound that is wrong");
      await field("Minimum", row("lr")).fill("0.01");
      await field("Distribution", row("lr")).selectOption("logUniform");
      await page.locator(".card", { hasText: "Parameters of the search" }).getByRole("button", { name: "Add" }).click();
      await field("Type", row("parameter_2")).selectOption("categorical");
      await field("Values, separated by commas", row("parameter_2")).fill("sgd, adam");
      await field("Name", row("parameter_2")).fill("optimizer");
      await field("Goal").fill("0.0001");
      await field("Maximum of trials").fill("3");
      await field("Early stopping").selectOption("medianstop");
      await field("min_trials_required").fill("5");
      await field("Command, a script of bash").fill("echo with ${trialParameters.parameter_2}\necho loss=${trialParameters.learningRate}");
      await page.locator(".config-acts").click();
      await verdict("Experiment made will be created");
      const written = await page.locator(".config-text .cm-content").innerText();
      for (const part of ["algorithmName: tpe", "- name: gamma", 'value: "0.2"', "goal: 0.0001", "distribution: logUniform"]) check(written.includes(part), `the text has ${part}: ${written}`);
      await page.click(".config-acts .primary");
      await until("its page", async () => /^\/experiments\/made-\d+\?tab=katib/.test(await at()), 30_000);
      await until("three trials", async () => (await succeeded()) === 3, 120_000);
      const { rows: [made] } = await page.evaluate(() => fetch("/api/v1/katib/resources?kind=Experiment&name=made").then((reply) => reply.json()));
      equal(JSON.stringify(made.object.spec.earlyStopping), '{"algorithmName":"medianstop","algorithmSettings":[{"name":"min_trials_required","value":"5"}]}', "early stopping");
      equal(JSON.stringify(made.object.spec.parameters[1]), '{"name":"optimizer","parameterType":"categorical","feasibleSpace":{"list":["sgd","adam"]}}', "the second parameter");
    },
    "a text that the form cannot change is shown, and the form waits for the next one": async () => {
      await go("/new_experiment?of=katib", page);
      await page.waitForSelector(".config-form");
      await put("apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec: {template: {spec: {containers: [{name: a, command: [true]}]}}}\n");
      await page.waitForSelector(".config-form:disabled");
      await put(resource("grid", 5));
      await page.waitForSelector(".config-form:enabled");
      equal(await field("Maximum of trials").inputValue(), "5", "the value of the text");
    },
    "no part has findings of axe, in both languages, both themes and on a phone": () => pages.axe(axe_source, ["/new_experiment?of=katib", "/experiments/grid-1?tab=katib", "/experiments/grid-1?tab=configuration"]),
    "nothing went wrong in the console, and no other host was asked": async () => equal(wrong.join("\n"), "", "the console"),
  });
} finally {
  await browser.close();
  cluster.close();
}
