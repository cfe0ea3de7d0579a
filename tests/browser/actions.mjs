// Every action that a page offers, as a person does it.
import http from "node:http";
import { Browser, PERSON, Project, assert, broke, check, did, pathOf, request, run, show, until, waitForState } from "./scene.mjs";
import * as workflows from "./workflows.mjs";

await run(async (atEnd) => {
  // An HTTP service that holds its answers until the check releases them.
  const orders = [];
  let isOpen = false;
  const service = http.createServer((asked, reply) => {
    orders.push(reply);
    if (isOpen) reply.writeHead(200, { "content-type": "application/json" }).end('{"made":true}');
  });
  await new Promise((resolve) => service.listen(0, "127.0.0.1", resolve));
  atEnd(async () => { service.closeAllConnections(); service.close(); });
  const { port } = service.address();

  const { deploy, waiting, asking, calling, chain } = workflows;
  const project = new Project({ deploy, waiting, asking, calling, chain: chain("chain", 3) });
  atEnd(() => project.remove());
  const document = project.write("shop.json", workflows.shop(port));
  await project.command(["catalog", "add", document, "--title", "Shop", "--vendor", "shop", "--allow", `127.0.0.1:${port}`]);
  await project.command(["trust", project.dir]);

  // An execution of another machine.
  let server = await project.serve({ data: "other" });
  await server.calls.advance("deploy", "from-elsewhere", { version: "7" }, [did("built")]);
  await server.kill("SIGTERM");
  await project.command(["export", "from-elsewhere", "--output", "elsewhere.midex"], { data: "other" });
  await project.command(["import", "elsewhere.midex"]);

  // Calls that are cut off.
  server = await project.serve();
  atEnd(() => server.kill());
  const cut = ["cut-again", "cut-done", "cut-broken"];
  for (const id of cut) await server.calls.start("calling", id);
  await until("the service has the orders", () => orders.length === cut.length);
  await server.kill();
  isOpen = true;
  server = await project.serve();
  const { calls } = server;

  const browser = await Browser.launch();
  atEnd(() => browser.close());
  const page = await browser.enter(await project.link());
  const press = (name) => page.getByRole("button", { name, exact: true }).click();
  const open = (text) => page.locator("summary", { hasText: text }).first().click();
  const history = async (id) => (await project.json(["show", id, "--visits"])).history;

  await check("a form made from inputs starts a workflow", async () => {
    await show(page, "/workflows/deploy");
    await open("Start it");
    await page.getByLabel("Version").fill("1.4.0");
    const places = page.locator('[name="input.places"]');
    assert.equal(await places.getAttribute("type"), "number");
    await places.fill("3");
    await page.locator('[name="input.sure"]').selectOption("true");
    const kind = page.locator('[name="input.kind"]');
    assert.equal(await kind.inputValue(), "beta", "the default is chosen");
    await kind.selectOption("stable");
    await press("Start");
    await page.waitForURL(/\/executions\/deploy-/);
    await waitForState(page, "running");
    const id = decodeURIComponent(page.url().split("/").pop());
    const { current_step: { inputs } } = await project.json(["show", id]);
    assert.deepEqual(inputs, { version: "1.4.0", places: 3, sure: true, kind: "stable" });
  });

  await check("a start with inputs that the workflow refuses starts nothing, and says why", async () => {
    await show(page, "/workflows/deploy");
    await open("Start it");
    await page.getByLabel("Version").fill("1");
    await page.locator('[name="input.places"]').evaluate((field) => { field.removeAttribute("max"); });
    await page.locator('[name="input.places"]').fill("99");
    await browser.expecting([/status of 4\d\d/], () => press("Start").then(() => page.getByText("That did not work").waitFor()));
    const text = await page.locator("main").innerText();
    assert.match(text, /places/);
    await page.getByRole("link", { name: "Back" }).click();
    await page.waitForURL(/\/workflows\/deploy$/);
  });

  await check("pause, resume, rewind, abandon and retry", async () => {
    await calls.advance("deploy", "moved", { version: "2" }, [did("built")]);
    await show(page, pathOf("moved"));
    await waitForState(page, "running");
    await press("Pause");
    await waitForState(page, "paused");
    assert.match(await page.locator(".reason").innerText(), new RegExp(`paused by ${PERSON} in the dashboard`));
    await press("Resume");
    await waitForState(page, "running");
    await open("Rewind to a step");
    await page.locator('[name="to_step"]').selectOption("build");
    await page.locator('[name="reason"]').fill("once more");
    await press("Rewind");
    await until("it is rewound", async () => (await calls.status("moved")).current_step === "build");
    await until("the page shows it", async () => /Steps\s+0 of 4 done/.test(await page.locator("#head").innerText()));
    await press("Abandon");
    await waitForState(page, "abandoned");
    await press("Retry");
    await waitForState(page, "running");
    assert.ok(browser.dialogs.some((text) => text.startsWith("Abandon it")), "it asks before it abandons");
    assert.ok(browser.dialogs.some((text) => text.startsWith("Rewind it")), "it asks before it rewinds");
  });

  await check("a failed execution is retried from a step with edited inputs", async () => {
    await calls.advance("deploy", "broken", { version: "3" }, [did("built"), broke("disk_full", "no room")]);
    await show(page, pathOf("broken"));
    await waitForState(page, "failed");
    assert.match(await page.locator(".reason").innerText(), /check failed: no room/);
    await open("Retry from a step");
    await page.locator('[name="from_step"]').selectOption("check");
    await page.locator('[name="inputs"]').fill('{ "version": "3.1" }');
    await press("Retry like this");
    await page.waitForURL((url) => /^\/executions\//.test(url.pathname) && !url.pathname.endsWith("/broken"));
    await waitForState(page, "running");
    const fork = decodeURIComponent(page.url().split("/").pop());
    const shown = await project.json(["show", fork]);
    assert.equal(shown.current_step.inputs.version, "3.1");
    assert.equal(shown.status.forked_from.execution_id, "broken");
    await page.getByRole("link", { name: "broken" }).first().waitFor();
  });

  await check("a failed execution is retried from an earlier step", async () => {
    await calls.advance("deploy", "broken-2", { version: "3" }, [did("built"), broke("disk_full", "no room")]);
    await show(page, pathOf("broken-2"));
    await open("Retry from a step");
    await page.locator('[name="from_step"]').selectOption("build");
    await press("Retry like this");
    await page.waitForURL((url) => /^\/executions\//.test(url.pathname) && !url.pathname.endsWith("/broken-2"));
    await waitForState(page, "running");
    const retried = decodeURIComponent(page.url().split("/").pop());
    assert.equal((await calls.status(retried)).current_step, "build");
  });

  await check("a signal with a payload", async () => {
    await calls.start("waiting", "signalled");
    await show(page, pathOf("signalled"));
    await page.locator('[name="payload"]').fill('{ "from": "here" }');
    await press("Send the signal");
    await until("the step ended", async () => (await calls.status("signalled")).current_step === "work");
    assert.deepEqual((await history("signalled")).find((row) => row.step_name === "hold").output, { from: "here" });
  });

  await check("a gate is approved, and the history says who did it, and how", async () => {
    await calls.advance("deploy", "agreed", { version: "4" }, [did("built"), did("checked")]);
    await show(page, pathOf("agreed"));
    await waitForState(page, "paused");
    assert.match(await page.locator("#waits").innerText(), /Publish 4\?\s+It cannot be taken back\./);
    await page.getByLabel("Comment").fill("fine with me");
    await press("Approve");
    await waitForState(page, "running");
    const { answered } = (await history("agreed")).find((row) => row.step_name === "agree");
    assert.deepEqual([answered.approved, answered.by, answered.via], [true, PERSON, "dashboard"]);
    const visit = page.locator("#steps details", { hasText: "agree" }).first();
    await visit.locator("summary").first().click();
    const text = await visit.innerText();
    assert.match(text, new RegExp(`Approved by ${PERSON} \\((via )?dashboard\\)`));
    assert.match(text, /fine with me/, "the comment is in the history");
  });

  await check("a gate is rejected", async () => {
    await calls.advance("deploy", "refused", { version: "5" }, [did("built"), did("checked")]);
    await show(page, pathOf("refused"));
    await page.getByLabel("Comment").fill("not today");
    await press("Reject");
    await waitForState(page, "failed");
    const { answered } = (await history("refused")).find((row) => row.step_name === "agree");
    assert.deepEqual([answered.approved, answered.by, answered.via], [false, PERSON, "dashboard"]);
    const text = await page.locator("#steps").innerText();
    assert.match(text, new RegExp(`Rejected by ${PERSON} \\((via )?dashboard\\)`));
    assert.match(text, /not today/, "the comment is in the history");
  });

  await check("only the user answers what is asked of the user", async () => {
    await calls.start("asking", "asked");
    await show(page, pathOf("asked"));
    await page.getByText("only you may answer").waitFor();
    await page.getByLabel("Your answer").fill('{ "guest": "Ada" }');
    await press("Answer");
    await until("the answer was taken", async () => (await calls.status("asked")).current_step === "serve");
  });

  await check("an unknown outcome is resolved: done again", async () => {
    await show(page, pathOf("cut-again"));
    await waitForState(page, "paused");
    assert.match(await page.locator(".reason").innerText(), /nobody knows whether it took effect/);
    await page.getByLabel("It took no effect").check();
    await press("Resolve");
    await until("it goes on", async () => (await calls.status("cut-again")).current_step === "tell");
  });

  await check("an unknown outcome is resolved: with an output", async () => {
    await show(page, pathOf("cut-done"));
    await page.getByLabel("It took effect").check();
    await page.getByLabel("Output, as JSON").fill('{ "made": "by hand" }');
    await press("Resolve");
    await until("it goes on", async () => (await calls.status("cut-done")).current_step === "tell");
    assert.ok((await history("cut-done")).some((row) => row.output?.made === "by hand"));
  });

  await check("an unknown outcome is resolved: as a failure", async () => {
    await show(page, pathOf("cut-broken"));
    await page.getByLabel("It failed:").check();
    await page.getByLabel("Why it failed").fill("the shop was closed");
    await press("Resolve");
    await waitForState(page, "failed");
    assert.match(await page.locator(".reason").innerText(), /the shop was closed/);
  });

  await check("an imported execution goes on as a fork", async () => {
    await show(page, pathOf("from-elsewhere"));
    assert.match(await page.locator(".reason").innerText(), /imported, and is read-only/);
    assert.equal(await page.getByRole("button", { name: "Pause" }).count(), 0);
    await press("Go on in a fork");
    await page.waitForURL((url) => /^\/executions\//.test(url.pathname) && !url.pathname.endsWith("/from-elsewhere"));
    await waitForState(page, "running");
  });

  await check("the past of an execution has no form", async () => {
    await show(page, `${pathOf("agreed")}?at=2`);
    assert.match(await page.locator("#head").innerText(), /As it was at 2/);
    assert.equal(await page.locator("form").count(), 0);
  });

  await check("several executions are paused, resumed and abandoned at once", async () => {
    const ids = ["many-1", "many-2", "many-3"];
    for (const id of ids) await calls.start("chain", id, {}, { batch: "many" });
    const choose = async () => {
      await show(page, "/executions?label=batch%3Dmany");
      await page.getByLabel("Select many-1").check();
      await page.getByLabel("Select many-3").check();
    };
    const states = async () => Promise.all(ids.map(async (id) => (await calls.status(id)).state));
    await choose();
    await press("Pause the selected");
    await until("two are paused", async () => (await page.locator("#list .state.paused").count()) === 2);
    assert.deepEqual(await states(), ["paused", "running", "paused"]);
    assert.match(page.url(), /label=batch/, "the filter stays");
    await choose();
    await press("Resume the selected");
    await until("all go on", async () => (await page.locator("#list .state.running").count()) === 3);
    await choose();
    await press("Abandon the selected");
    await until("two are abandoned", async () => (await page.locator("#list .state.abandoned").count()) === 2);
    assert.deepEqual(await states(), ["abandoned", "running", "abandoned"]);
  });

  await check("filters are in the address, and a link to the next page keeps them", async () => {
    for (let index = 0; index < 60; index += 1) await calls.start("chain", `row-${index}`, {}, { batch: "rows" });
    await show(page, "/executions");
    await page.getByLabel("State").selectOption("running");
    await page.getByLabel("Workflow").fill("chain");
    await page.getByLabel("Labels").fill("batch=rows");
    await press("Filter");
    await page.waitForURL(/state=running/);
    assert.equal(new URL(page.url()).searchParams.get("label"), "batch=rows");
    assert.equal(await page.getByLabel("State").inputValue(), "running", "the form shows the filter");
    const ids = async () => page.locator("#list tbody a[href^='/executions/']").allInnerTexts();
    const first = await ids();
    assert.equal(first.length, 50);
    await page.getByRole("link", { name: "Next page" }).click();
    await page.waitForURL(/cursor=/);
    const second = await ids();
    assert.equal(second.length, 10);
    assert.equal(new Set([...first, ...second]).size, 60, "no row is lost or shown twice");
    await page.getByRole("link", { name: "First page" }).click();
    await page.waitForURL((url) => !url.search.includes("cursor="));
    assert.equal((await ids()).length, 50);
    await show(page, "/executions?text=row-17");
    assert.deepEqual(await ids(), ["row-17"]);
  });

  await check("every other page opens, and its links lead somewhere", async () => {
    const seen = new Set();
    const paths = [
      "/", "/executions", "/executions?state=failed", "/workflows", "/workflows?text=deploy", "/workflows/deploy", "/agents", "/agents/implementer",
      "/catalogs", "/server", pathOf("agreed"), `${pathOf("agreed")}/visits/agree`,
    ];
    for (const path of paths) {
      await show(page, path);
      assert.ok((await page.locator("h1").innerText()).length > 0, path);
      const found = await page.locator("a[href]").evaluateAll((links) => links.map((one) => one.getAttribute("href")));
      for (const link of found) seen.add(link);
    }
    const address = project.address();
    const links = [...seen].filter((link) => link.startsWith("/")).slice(0, 150);
    for (const link of links) assert.equal((await request(address, link)).status, 200, link);
    return `${links.length} links`;
  });

  await check("Now alone: what stands still is found and set going", async () => {
    const stuck = ["stuck-gate", "stuck-failed", "stuck-paused"];
    await calls.advance("deploy", stuck[0], { version: "9" }, [did("built"), did("checked")]);
    await calls.advance("deploy", stuck[1], { version: "9" }, [broke("disk_full", "no room left")]);
    await calls.start("deploy", stuck[2], { version: "9" });
    await calls.tool("execution.pause", { execution_id: stuck[2], reason: "waits for the review" });
    await show(page, "/");
    const card = (id) => page.locator("article.card", { has: page.getByRole("link", { name: id, exact: true }) });
    assert.match(await card(stuck[0]).innerText(), /waits for a person's approval/);
    assert.match(await card(stuck[1]).innerText(), /build failed: no room left/);
    assert.match(await card(stuck[2]).innerText(), /waits for the review/);
    for (const [id, button] of [[stuck[0], "Approve"], [stuck[2], "Resume"]]) {
      await card(id).getByRole("button", { name: button, exact: true }).click();
      await until(`${id} goes on`, async () => (await calls.status(id)).state === "running");
      await until("the card goes", async () => (await card(id).count()) === 0);
      assert.equal(new URL(page.url()).pathname, "/", "the person stays on Now");
    }
    // A retry is a new execution, so it leads there.
    await card(stuck[1]).getByRole("button", { name: "Retry", exact: true }).click();
    await page.waitForURL(/\/executions\/stuck-failed/);
    await waitForState(page, "running");
    await page.getByRole("link", { name: "Now", exact: true }).click();
    assert.equal(await card(stuck[1]).count(), 0, "what was retried needs nobody");
  });
});
