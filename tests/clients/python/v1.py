"""The official Python SDK, version 1: sessions that begin with a handshake."""

import asyncio
from contextlib import asynccontextmanager

import scene
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl


class Client:
    def __init__(self, session, updates):
        self.session = session
        self.updates = updates

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def templates(self):
        listed = await self.session.list_resource_templates()
        return [template.uriTemplate for template in listed.resourceTemplates]

    async def call(self, tool, arguments):
        result = await self.session.call_tool(tool, arguments)
        return result.isError, result.structuredContent

    async def read(self, uri):
        result = await self.session.read_resource(AnyUrl(uri))
        return scene.parsed(result.contents[0].text)

    @asynccontextmanager
    async def watching(self, uri):
        await self.session.subscribe_resource(AnyUrl(uri))
        yield self.updates.get
        await self.session.unsubscribe_resource(AnyUrl(uri))


async def walk(checks, name, streams):
    updates = asyncio.Queue()

    async def hear(message):
        if isinstance(message, types.ServerNotification):
            notification = message.root
            if isinstance(notification, types.ResourceUpdatedNotification):
                updates.put_nowait(str(notification.params.uri))

    async with streams as (read, write, *_), ClientSession(read, write, message_handler=hear) as session:
        hello = await session.initialize()
        checks.that(hello.serverInfo.name == "midex", f"{name}: shook hands", hello)
        await scene.walk(checks, name, Client(session, updates))


async def main():
    checks = scene.Checks()
    name = "python1 stdio"
    server = StdioServerParameters(command=scene.MIDEX, args=scene.serve_arguments("python1"))
    await checks.session(name, walk(checks, name, stdio_client(server)))
    name = "python1 http"
    await checks.session(name, walk(checks, name, streamable_http_client(scene.ENDPOINT)))
    checks.end()


asyncio.run(main())
