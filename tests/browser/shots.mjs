// Pictures of the pages, for a person to look at. They are written into $SHOTS.
import { join } from "node:path";
import { Browser, Project, broke, check, did, pathOf, run, show, sleep } from "./scene.mjs";
import * as workflows from "./workflows.mjs";

await run(async (atEnd) => {
  const { deploy, waiting, chain } = workflows;
  const project = new Project({ deploy, waiting, chain: chain("chain", 12) });
  atEnd(() => project.remove());
  const server = await project.serve();
  atEnd(() => server.kill());
  const { calls } = server;
  const built = did("The package is built.");
  await calls.advance("deploy", "release-1.4", { version: "1.4.0", places: 3 }, [built, did("All 212 tests pass.")]);
  await calls.advance("deploy", "release-1.3", { version: "1.3.0" }, [built, broke("tests_failed", "3 of 212 tests fail:\n  parser, reader, writer")]);
  await calls.start("waiting", "nightly");
  await calls.start("deploy", "release-1.5", { version: "1.5.0" }, { team: "blue", pr: "123" });
  await calls.tool("execution.pause", { execution_id: "release-1.5", reason: "waits for the review" });
  let answer = await calls.start("chain", "chain-1");
  for (let index = 0; index < 7; index += 1) {
    await sleep(30 * index);
    answer = await calls.next(answer, did(`Part ${index} is done.`));
  }
  const browser = await Browser.launch();
  atEnd(() => browser.close());
  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.enter(await project.link(), { colorScheme });
    const shoot = async (name, path, { width = 1280, prepare } = {}) => {
      await page.setViewportSize({ width, height: 900 });
      await show(page, path);
      await prepare?.();
      await page.screenshot({ path: join(process.env.SHOTS, `${name}-${colorScheme}.png`), fullPage: true });
    };
    await check(`pictures of the pages (${colorScheme})`, async () => {
      await shoot("execution", pathOf("release-1.4"));
      await shoot("execution-failed", pathOf("release-1.3"));
      await shoot("now", "/");
      await shoot("execution-narrow", pathOf("chain-1"), { width: 320 });
      if (colorScheme === "dark") return;
      await shoot("execution-chain", pathOf("chain-1"));
      await shoot("now-narrow", "/", { width: 320 });
      await shoot("executions", "/executions");
      await shoot("executions-narrow", "/executions", { width: 320 });
      const open = () => page.locator("summary", { hasText: "Start it" }).click();
      await shoot("workflow", "/workflows/deploy", { prepare: open });
      await shoot("workflows", "/workflows");
      await shoot("step", `${pathOf("release-1.4")}/visits/build`);
      await shoot("agent", "/agents/implementer");
      await shoot("server", "/server");
    });
    await page.context().close();
  }
});
