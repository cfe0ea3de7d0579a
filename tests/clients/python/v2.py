"""The official Python SDK, version 2: the revision without sessions, and the handshake for what is older."""

import asyncio
from contextlib import asynccontextmanager

import mcp_types as types
import scene
from mcp import Client as Sdk
from mcp import StdioServerParameters

MODERN = "2026-07-28"


class Client:
    def __init__(self, sdk, updates):
        self.sdk = sdk
        self.updates = updates

    async def tools(self):
        return [tool.name for tool in (await self.sdk.list_tools()).tools]

    async def templates(self):
        listed = await self.sdk.list_resource_templates()
        return [template.uri_template for template in listed.resource_templates]

    async def call(self, tool, arguments):
        result = await self.sdk.call_tool(tool, arguments)
        return result.is_error, result.structured_content

    async def read(self, uri):
        result = await self.sdk.read_resource(uri)
        return scene.parsed(result.contents[0].text)

    def watching(self, uri):
        return self.listening(uri) if self.sdk.protocol_version == MODERN else self.subscribed(uri)

    @asynccontextmanager
    async def listening(self, uri):
        async with self.sdk.listen(resource_subscriptions=[uri]) as events:

            async def changed():
                return (await anext(aiter(events))).uri

            yield changed

    @asynccontextmanager
    async def subscribed(self, uri):
        await self.sdk.subscribe_resource(uri)
        yield self.updates.get
        await self.sdk.unsubscribe_resource(uri)


async def walk(checks, name, server, mode, version):
    updates = asyncio.Queue()

    async def hear(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.put_nowait(str(message.params.uri))

    async with Sdk(server, mode=mode, message_handler=hear) as sdk:
        seen = (sdk.protocol_version, sdk.server_info and sdk.server_info.name)
        checks.that(seen == (version, "midex"), f"{name}: they speak {version}", seen)
        await scene.walk(checks, name, Client(sdk, updates))


async def main():
    checks = scene.Checks()
    for mode, version in (("auto", MODERN), ("legacy", "2025-11-25")):
        name = f"python2 {mode} stdio"
        arguments = scene.serve_arguments(name.replace(" ", "-"))
        server = StdioServerParameters(command=scene.MIDEX, args=arguments)
        await checks.session(name, walk(checks, name, server, mode, version))
        name = f"python2 {mode} http"
        await checks.session(name, walk(checks, name, scene.ENDPOINT, mode, version))
    checks.end()


asyncio.run(main())
