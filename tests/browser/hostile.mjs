// Texts and ids as attackers write them, and graphs that are large. Nothing of it runs, and no page grows with it.
import { Browser, Project, assert, broke, check, did, pathOf, request, run, show, until } from "./scene.mjs";
import * as workflows from "./workflows.mjs";

const PAGE_BYTES_MAX = 100_000;
const GRAPH_MS_MAX = 2_000;
/// An execution with values of three megabytes, while the other core has other work.
const ANSWER_MS_MAX = 5_000;

const MARKUP = `<script>alert("script")</script><img src=x onerror='alert("image")'><svg onload=alert(1)></svg>` +
  `</textarea></title></pre>"'><b onmouseover=alert(2)>`;
const BIDI = "safe\u202Etxt.exe\u2066\u200B\u0007";
const HUGE = "x".repeat(1_000_000);
const IDS = ["a/b c%20?d#e", "../../etc/passwd", "%2e%2e", "ключ/鍵 😀", `<b>"id"&'`, "bidi\u202Egpj.exe", "a+b&c=d;e"];
const HIDDEN = /[\u202A-\u202E\u2066-\u2069\u200B-\u200F\u0007]/;

/// Calls with the longest text that is accepted.
async function longest(call) {
  for (const length of [1_000_000, 100_000, 10_000, 2_000]) {
    const isAccepted = await call(HUGE.slice(0, length)).then(() => true, () => false);
    if (isAccepted) return;
  }
  throw new Error("no length is accepted");
}

const NAME = JSON.stringify(MARKUP);
const WORDS = JSON.stringify(`${MARKUP} ${BIDI}`);
const hostile = `workflow: hostile
title: ${NAME}
description: ${WORDS}
inputs:
  text: { type: string, optional: true, name: ${NAME}, description: ${WORDS}, example: ${NAME} }
steps:
  - { id: one, title: "\${{ inputs.text }}", description: ${NAME}, guidance: "Do \${{ inputs.text }}" }
  - { id: agree, gate: { ask: "Publish \${{ inputs.text }}?", approvers: [${NAME}] } }
  - { id: two, guidance: Do it }
final_output: "\${{ steps.two.summary }}"
`;

await run(async (atEnd) => {
  const { deploy, chain, layers } = workflows;
  const project = new Project({ deploy, hostile, chain: chain("chain", 200), dense: layers("dense", 500, 20, 11), full: layers("full", 200, 10, 3) });
  atEnd(() => project.remove());
  const server = await project.serve();
  atEnd(() => server.kill());
  const { calls } = server;
  const address = project.address();
  const browser = await Browser.launch();
  atEnd(() => browser.close());
  const page = await browser.enter(await project.link());
  const sizes = [];
  /// Requests a page and checks its status, time and size; then opens it and checks that no text became an element.
  const judge = async (path, tookMax = ANSWER_MS_MAX) => {
    const began = Date.now();
    const reply = await request(address, path);
    const took = Date.now() - began;
    assert.equal(reply.status, 200, path);
    sizes.push([reply.bytes, path.slice(0, 60), took]);
    assert.ok(took <= tookMax, `${path} took ${took} ms`);
    assert.ok(reply.bytes <= PAGE_BYTES_MAX, `${path} has ${reply.bytes} bytes`);
    await show(page, path);
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
    const { text, title, foreign, handlers } = await page.evaluate(() => {
      const show = (elements) => elements.map((one) => one.outerHTML.slice(0, 100));
      const acts = (one) => [...one.attributes].some(({ name }) => name.startsWith("on") || name === "style");
      return {
        text: document.body.innerText, title: document.title,
        foreign: show([...document.querySelectorAll("script:not([src='/script.js']), img:not([src^='/graph/']), iframe, object, main b, style")]),
        handlers: show([...document.querySelectorAll("*")].filter(acts)),
      };
    });
    assert.deepEqual(foreign, [], `${path}: elements of the text`);
    assert.deepEqual(handlers, [], `${path}: handlers or styles`);
    assert.doesNotMatch(text, HIDDEN, `${path}: hidden characters`);
    assert.doesNotMatch(title, HIDDEN, `${path}: hidden characters in the title of the window`);
    return text;
  };

  await check("ids with every kind of character have pages, links and actions", async () => {
    for (const id of IDS) await calls.start("deploy", id, { version: "1" });
    await project.command(["run", "deploy", "--id", "by/hand ?#%", "--inputs", '{"version":"1"}'], { fails: true });
    for (const id of [...IDS, "by/hand ?#%"]) {
      await show(page, "/executions");
      const row = page.locator("#list tbody tr").filter({ has: page.locator(`input[value=${JSON.stringify(id)}]`) });
      const link = row.locator("a[href^='/executions/']");
      await link.click();
      await page.waitForURL((url) => url.pathname.startsWith("/executions/"));
      assert.equal(decodeURIComponent(new URL(page.url()).pathname.slice("/executions/".length)), id);
      await page.getByRole("button", { name: "Pause", exact: true }).click();
      await page.locator("h1 .state.paused").waitFor();
      assert.equal((await calls.status(id)).state, "paused", id);
      assert.doesNotMatch(await page.title(), HIDDEN, "the title of the window");
    }
  });

  await check("markup and hidden characters in inputs, outputs, reasons, titles and errors stay texts", async () => {
    const text = `${MARKUP} ${BIDI}`;
    await calls.advance("hostile", "markup-gate", { text }, [did(text)]);
    await calls.advance("hostile", "markup-failed", { text }, [broke(`CODE`, text)]);
    await calls.start("hostile", "markup-paused", { text }, { label: MARKUP.slice(0, 60) });
    await calls.tool("execution.pause", { execution_id: "markup-paused", reason: text });
    const paths = ["/", "/executions", "/workflows", "/workflows/hostile", "/server"];
    for (const list of ["/executions", "/workflows"]) paths.push(`${list}?text=${encodeURIComponent(MARKUP)}`);
    for (const id of ["markup-gate", "markup-failed", "markup-paused"]) paths.push(pathOf(id), `${pathOf(id)}/visits/one`);
    for (const path of paths) await judge(path);
    assert.match(await judge(pathOf("markup-failed")), /<script>alert\("script"\)<\/script>/, "it is shown as it was written");
    // A page is also rendered piece by piece into an open one.
    await show(page, pathOf("markup-gate"));
    await calls.tool("execution.pause", { execution_id: "markup-gate", reason: text });
    await until("it is shown", async () => (await page.locator("#head").innerText()).includes("It is paused"));
    assert.equal(await page.locator("main script, main img").count(), 0);
  });

  await check("an error page shows a hostile address as a text", async () => {
    const paths = ["/executions/", "/", "/executions?label=", "/executions?since=", "/executions?cursor="];
    for (const path of paths.map((path) => path + encodeURIComponent(MARKUP + BIDI))) {
      const reply = await browser.expecting([/status of 4\d\d/], () => page.goto(address.origin + path));
      assert.ok(reply.status() >= 400 && reply.status() < 500, `${path}: ${reply.status()}`);
      assert.equal(await page.locator("main script, main img, main b").count(), 0, path);
      assert.doesNotMatch(await page.locator("body").innerText(), HIDDEN, path);
    }
  });

  await check("texts of a megabyte make no large page", async () => {
    await calls.advance("deploy", "huge-done", { version: HUGE }, [did(HUGE), did(HUGE)]);
    await calls.advance("hostile", "huge-gate", { text: HUGE }, [did(HUGE)]);
    const answer = await calls.start("deploy", "huge-failed", { version: HUGE });
    await longest((text) => calls.next(answer, broke("HUGE", text)));
    await calls.start("deploy", "huge-paused", { version: HUGE });
    await longest((reason) => calls.tool("execution.pause", { execution_id: "huge-paused", reason }));
    const { executions } = await calls.tool("execution.list", { limit: 20 });
    const ids = executions.map((one) => one.execution_id).filter((id) => id.startsWith("huge-"));
    assert.equal(ids.length, 4, ids.join());
    const report = { type: "report", name: "report.md", content: HUGE.slice(0, 500_000), content_type: "text/markdown" };
    await calls.advance("deploy", "huge-artifact", { version: "1" }, [{ output: { summary: "built", artifacts: [report] } }]);
    for (const id of ids) await judge(pathOf(id));
    for (const path of ["/", "/executions", pathOf("huge-artifact")]) await judge(path);
    await judge(`${pathOf("huge-done")}/visits/build`);
    await judge(`${pathOf("huge-artifact")}/artifacts/1`);
  });

  await check("many visits with long outputs make no large page", async () => {
    let answer = await calls.start("chain", "many");
    for (let index = 0; index < 120; index += 1) answer = await calls.next(answer, did("y".repeat(5_000)));
    await judge(pathOf("many"));
    for (let index = 0; index < 60; index += 1) await calls.start("deploy", `${"long-id-".repeat(15)}${index}`, { version: "1" }, { label: "z".repeat(60) });
    await judge("/executions");
    for (let index = 0; index < 12; index += 1) {
      await calls.advance("deploy", `gate-${index}`, { version: "v".repeat(5_000) }, [did("built"), did("checked")]);
      await calls.advance("deploy", `fault-${index}`, { version: "v" }, [broke("disk_full", "w".repeat(3_000))]);
    }
    await judge("/");
  });

  await check("a graph of 200 steps is drawn, and one of 500 with 5,000 edges does not hold the page up", async () => {
    await calls.start("full", "graph-200");
    await calls.start("dense", "graph-500");
    for (const path of ["/workflows/full", pathOf("graph-200"), "/workflows/dense", pathOf("graph-500")]) {
      await judge(path, GRAPH_MS_MAX);
    }
    await show(page, pathOf("graph-200"));
    const picture = page.locator("#graph img");
    await until("the picture is there", () => picture.evaluate((image) => image.complete && image.naturalHeight > 1_000));
    const began = Date.now();
    await show(page, pathOf("graph-500"));
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.locator("h1 .state.paused").waitFor();
    return `the page of 500 steps was opened and acted on in ${Date.now() - began} ms`;
  });

  sizes.sort(([a], [b]) => b - a);
  console.error(sizes.map(([bytes, path, took]) => `${bytes} bytes in ${took} ms: ${path}`).join("\n"));
  console.log(`the largest page: ${sizes[0]?.[0]} bytes (${sizes[0]?.[1]})`);
});
