// Who may come in, and what a read-only dashboard refuses.
import { Browser, Project, assert, check, did, form, pathOf, request, run, show, until } from "./scene.mjs";
import * as workflows from "./workflows.mjs";

await run(async (atEnd) => {
  const { deploy } = workflows;
  const project = new Project({ deploy });
  atEnd(() => project.remove());
  const server = await project.serve();
  atEnd(() => server.kill());
  await server.calls.advance("deploy", "guarded", { version: "1" }, [did("built"), did("checked")]);
  const address = project.address();
  const browser = await Browser.launch();
  atEnd(() => browser.close());
  const state = async () => (await server.calls.status("guarded")).state;
  const formToken = async () => (await request(address, pathOf("guarded"))).text.match(/name="form_token" value="([^"]+)"/)[1];

  await check("a server on a new data directory serves its dashboard", async () => {
    const fresh = project.start(["serve", "--http", "127.0.0.1:0", "--dashboard", "127.0.0.1:0"], "fresh");
    try {
      await fresh.says(/running on http/);
      await until("the dashboard says where it is", () => project.address("fresh"), 3_000).catch((error) => {
        throw new Error(`${error.message}: ${fresh.text.match(/no dashboard is served.*/)?.[0]}`);
      });
    } finally {
      await fresh.kill();
    }
  });

  await check("a link works once, and gives a cookie that no script can read", async () => {
    const link = await project.link();
    const page = await browser.enter(link);
    assert.equal(new URL(page.url()).pathname, "/");
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["midex_dashboard", true, "Strict"]);
    assert.equal(await page.evaluate(() => document.cookie), "");
    await browser.expecting([/status of 403/], async () => {
      const reply = await page.goto(link);
      assert.equal(reply.status(), 403);
      assert.match(await page.locator("main").innerText(), /used already/);
    });
    await page.context().close();
  });

  await check("a link that was never made is refused", async () => {
    const reply = await request(address, "/enter?key=00000000000000000000000000000000", { cookie: false });
    assert.equal(reply.status, 403);
    assert.equal(reply.headers["set-cookie"], undefined);
    assert.equal((await request(address, "/enter", { cookie: false })).status, 403);
  });

  await check("of more links than are kept, the oldest is refused", async () => {
    const oldest = new URL(await project.link());
    for (let index = 0; index < 16; index += 1) await project.link();
    const reply = await request(address, oldest.pathname + oldest.search, { cookie: false });
    assert.equal(reply.status, 403);
  });

  await check("without a cookie there is a page that says how to come in", async () => {
    for (const path of ["/", "/executions", pathOf("guarded"), "/live?page=/", "/nothing"]) {
      const reply = await request(address, path, { cookie: false });
      assert.equal(reply.status, 401, path);
      assert.match(reply.text, /midex dashboard/, path);
    }
    const wrong = await request(address, "/", { cookie: false, headers: { cookie: "midex_dashboard=wrong" } });
    assert.equal(wrong.status, 401);
  });

  await check("a page without a cookie breaks no rule of its own", async () => {
    const context = await browser.browser.newContext();
    const page = await context.newPage();
    browser.watch(page, address.origin);
    await browser.expecting([/status of 401/], async () => {
      const reply = await page.goto(address.origin);
      assert.equal(reply.status(), 401);
      await page.getByText("midex dashboard").first().waitFor();
    });
    await context.close();
  });

  await check("a form without its token, or with a wrong one, changes nothing", async () => {
    for (const fields of [{}, { form_token: "" }, { form_token: "wrong" }]) {
      const reply = await request(address, "/act/abandon", form({ execution_id: "guarded", ...fields }));
      assert.equal(reply.status, 403);
    }
    assert.equal(await state(), "paused");
  });

  await check("a form that another site sends, or a request for another host, is refused", async () => {
    const fields = { form_token: await formToken(), execution_id: "guarded" };
    const sent = form(fields);
    for (const origin of ["http://evil.example", "null", "http://localhost:1"]) {
      const reply = await request(address, "/act/abandon", { ...sent, headers: { ...sent.headers, origin } });
      assert.equal(reply.status, 403, origin);
    }
    for (const host of ["evil.example", `evil.example:${address.port}`, `midex-0000000000000000.localhost:${address.port}`]) {
      assert.equal((await request(address, "/", { headers: { host } })).status, 403, host);
    }
    assert.equal(await state(), "paused");
  });

  await check("every reply has its rules", async () => {
    for (const path of ["/", "/style.css", "/script.js", "/nothing", "/enter?key=1"]) {
      const { headers } = await request(address, path, { cookie: path === "/nothing" });
      assert.match(headers["content-security-policy"], /default-src 'none'.*frame-ancestors 'none'/, path);
      assert.equal(headers["x-content-type-options"], "nosniff", path);
      assert.equal(headers["x-frame-options"], "DENY", path);
      assert.equal(headers["cache-control"], "no-store", path);
      assert.ok(headers["referrer-policy"], path);
    }
  });

  await check("a script with the bearer token reads pages", async () => {
    const reply = await request(address, "/", { cookie: false, headers: { authorization: `Bearer ${address.token}` } });
    assert.equal(reply.status, 200);
    const wrong = await request(address, "/", { headers: { authorization: "Bearer wrong" } });
    assert.equal(wrong.status, 401, "a wrong token is refused, whatever the cookie");
  });

  await check("pages that are not there say so", async () => {
    const paths = ["/nothing", "/executions/nothing", "/agents/nothing", "/executions/%ff"];
    for (const path of [...paths, `${pathOf("guarded")}/visits/nothing`, `${pathOf("guarded")}/artifacts/9`]) {
      const reply = await request(address, path);
      assert.ok(reply.status >= 400 && reply.status < 500, `${path}: ${reply.status}`);
      assert.match(reply.text, /That did not work/, path);
    }
    // Executions of other projects have workflows that this one does not know.
    assert.match((await request(address, "/workflows/nothing")).text, /has no workflow of this name/);
    const back = await request(address, "/act/nothing", form({ form_token: await formToken(), back: "//evil.example" }));
    assert.doesNotMatch(back.text, /evil\.example/, "no link leads to another site");
  });

  await check("a read-only dashboard has no form, and refuses what one would send", async () => {
    const alone = new Project({ deploy });
    const dashboard = await alone.dashboard({ flags: ["--read-only"] });
    try {
      await alone.command(["run", "deploy", "--id", "kept", "--inputs", '{"version":"1"}'], { fails: true });
      const page = await browser.enter(dashboard.link);
      for (const path of ["/", "/executions", pathOf("kept"), "/workflows/deploy"]) {
        await show(page, path);
        assert.equal(await page.locator("form[method=post]").count(), 0, path);
        await page.getByText("read-only", { exact: true }).waitFor();
      }
      const address = alone.address();
      for (const fields of [{ execution_id: "kept" }, { execution_id: "kept", form_token: "wrong" }]) {
        for (const action of ["abandon", "pause", "start"]) assert.equal((await request(address, `/act/${action}`, form(fields))).status, 403);
      }
      const scripted = form({ execution_id: "kept" });
      const headers = { ...scripted.headers, authorization: `Bearer ${address.token}` };
      const reply = await request(address, "/act/abandon", { ...scripted, cookie: false, headers });
      assert.equal(reply.status, 403, "not even with the bearer token");
      assert.match(reply.text, /read-only/);
      assert.equal((await alone.json(["show", "kept"])).status.state, "running");
      await page.context().close();
    } finally {
      await dashboard.kill();
      await alone.remove();
    }
  });
});
