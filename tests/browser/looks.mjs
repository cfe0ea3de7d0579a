// Every page in narrow and wide windows, light and dark, for people who see little and for those without a mouse.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { Browser, Project, assert, broke, check, did, pathOf, run, show, waitForState } from "./scene.mjs";
import * as workflows from "./workflows.mjs";

const WIDTHS = [320, 768, 1280, 1920];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

await run(async (atEnd) => {
  const { deploy, waiting, chain } = workflows;
  const wrong = "workflow: wrong\nsteps:\n  - { id: a, guidance: Do it, dependson: b }\n";
  const project = new Project({ deploy, waiting, wrong, chain: chain("chain", 12) });
  atEnd(() => project.remove());
  await project.command(["catalog", "add", project.write("shop.json", workflows.shop(1)), "--title", "Shop", "--vendor", "shop"]);
  const server = await project.serve();
  atEnd(() => server.kill());
  const { calls } = server;
  await calls.advance("deploy", "gated", { version: "1" }, [did("built"), did("checked")]);
  const long = "a-very-long-id-without-any-space-that-would-make-a-narrow-window-scroll-".repeat(2);
  await calls.advance("deploy", `failed-${long}`, { version: "1" }, [did("built"), broke("disk_full", `no room on ${"x".repeat(300)}`)]);
  const report = { type: "report", name: "report.md", content: "# Report\n\nIt works.", content_type: "text/markdown" };
  await calls.advance("deploy", "with-artifact", { version: "1" }, [{ output: { summary: "built", artifacts: [report] } }]);
  await calls.start("waiting", "signalled", {}, { team: "blue", pr: "123" });
  let answer = await calls.start("chain", "done");
  for (let index = 0; index < 12; index += 1) answer = await calls.next(answer, did(`part ${index}`));
  await calls.start("chain", "paused");
  await calls.tool("execution.pause", { execution_id: "paused", reason: "for the review" });

  const browser = await Browser.launch();
  atEnd(() => browser.close());
  const failed = pathOf(`failed-${long}`);
  const paths = [
    "/", "/executions", "/workflows", "/workflows/deploy", "/workflows/wrong", "/agents", "/agents/implementer", "/catalogs", "/server",
    pathOf("gated"), failed, pathOf("signalled"), pathOf("paused"), pathOf("done"), `${pathOf("done")}/visits/s3`,
    pathOf("with-artifact"), `${pathOf("with-artifact")}/artifacts/1`,
  ];

  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.enter(await project.link(), { colorScheme });
    await check(`no page scrolls sideways at ${WIDTHS.join(", ")} pixels (${colorScheme})`, async () => {
      const wide = [];
      for (const path of paths) {
        await show(page, path);
        await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: 900 });
          const [needed, given] = await page.evaluate(() => [document.scrollingElement.scrollWidth, document.scrollingElement.clientWidth]);
          if (needed > given) wide.push(`${path} needs ${needed} of ${given} pixels`);
        }
      }
      assert.deepEqual(wide, []);
      return `${paths.length} pages`;
    }, 60_000);

    await check(`axe finds nothing serious on any page (${colorScheme})`, async () => {
      const found = [];
      for (const [index, path] of paths.entries()) {
        await page.setViewportSize({ width: index % 2 ? 1280 : 320, height: 900 });
        await show(page, path);
        await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
        await page.evaluate(axe);
        const violations = await page.evaluate(async () => {
          const { violations } = await window.axe.run({ resultTypes: ["violations"] });
          const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
          const why = (node) => [...node.any, ...node.all, ...node.none][0]?.message;
          return serious.map(({ id, nodes }) => `${id}: ${nodes.length} times, first ${nodes[0].html.slice(0, 200)} (${why(nodes[0])})`);
        });
        for (const violation of violations) found.push(`${path}: ${violation}`);
      }
      assert.deepEqual(found, []);
      return `${paths.length} pages`;
    }, 60_000);
    await page.context().close();
  }

  const page = await browser.enter(await project.link());
  const focused = () => page.evaluate(() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return {
      tag: element.tagName.toLowerCase(),
      text: (element.textContent ?? "").trim().slice(0, 60),
      label: element.getAttribute("aria-label") ?? "",
      inMain: document.getElementById("main").contains(element),
      inGraph: element.closest("svg.graph") !== null,
      isVisible: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
      isOnScreen: box.right > 0 && box.bottom > 0 && box.left < innerWidth,
    };
  });
  /// Presses Tab until an element has the focus that is meant; notes elements on the way whose focus cannot be seen.
  const tabTo = async (meant, hidden) => {
    for (let count = 0; count < 120; count += 1) {
      await page.keyboard.press("Tab");
      const element = await focused();
      if (element.tag === "body") continue;
      if (!element.isVisible) hidden.add(`${element.tag} ${element.text || element.label}`);
      if (meant(element)) return element;
    }
    throw new Error("Tab does not reach it");
  };

  await check("the skip link comes first, and leads past the navigation", async () => {
    await show(page, "/executions");
    await page.keyboard.press("Tab");
    const first = await focused();
    assert.equal(first.text, "Skip to the content");
    assert.ok(first.isOnScreen && first.isVisible, "it can be seen");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.ok((await focused()).inMain, "the next Tab is in the content");
  });

  await check("without a mouse: navigation, graph, a visit, and a button", async () => {
    const hidden = new Set();
    await show(page, "/");
    await tabTo((element) => element.tag === "a" && element.text === "Executions", hidden);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/executions$/);
    await tabTo((element) => element.tag === "a" && element.text === "signalled", hidden);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/executions\/signalled$/);
    await tabTo((element) => element.tag === "a" && element.inGraph, hidden);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/visits\/hold$/);
    await page.goBack();
    await page.waitForURL(/\/executions\/signalled$/);
    await show(page, pathOf("signalled"));
    await tabTo((element) => element.tag === "button" && element.text === "Pause", hidden);
    await page.keyboard.press("Enter");
    await waitForState(page, "paused");
    await tabTo((element) => element.tag === "summary" && element.text.startsWith("Rewind"), hidden);
    await page.keyboard.press("Enter");
    await tabTo((element) => element.tag === "select", hidden);
    await show(page, pathOf("done"));
    await tabTo((element) => element.tag === "summary" && element.text.startsWith("Events"), hidden);
    assert.deepEqual([...hidden], [], "the focus can be seen everywhere");
  });

  await check("a gate is approved without a mouse", async () => {
    const hidden = new Set();
    await show(page, "/");
    await tabTo((element) => element.tag === "button" && element.text === "Approve", hidden);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => !document.querySelector("#paused")?.textContent.includes("gated"));
    assert.equal((await calls.status("gated")).state, "running");
  });

  await check("pages work without the script", async () => {
    const page = await browser.enter(await project.link(), { javaScriptEnabled: false });
    await page.goto(new URL(pathOf("paused"), page.url()).href);
    await page.getByRole("button", { name: "Resume" }).click();
    await waitForState(page, "running");
    await page.context().close();
  });
});
