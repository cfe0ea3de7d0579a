// The workflows of the checks.
export const deploy = `workflow: deploy
title: Deploy
description: Build, ask a person, and publish
inputs:
  version: { type: string, name: Version, description: The version to publish, example: 1.4.0 }
  places: { type: integer, optional: true, validate: { min: 1, max: 9 }, description: How many }
  sure: { type: boolean, optional: true }
  kind: { type: string, enum: [beta, stable], default: { from: literal, value: beta } }
steps:
  - { id: build, agent: implementer, instructions: "Build \${{ inputs.version }}" }
  - { id: check, agent: implementer, instructions: "Check \${{ inputs.kind }}", depends_on: [build] }
  - { id: agree, gate: { ask: "Publish \${{ inputs.version }}?\\nIt cannot be taken back." }, depends_on: [check] }
  - { id: publish, agent: implementer, instructions: "Publish it at \${{ inputs.places }}", depends_on: [agree] }
final_output: { said: "\${{ steps.publish.summary }}" }
`;
export const waiting = `workflow: waiting
description: Waits for a signal, again and again
memory: { count: 0 }
steps:
  - { id: hold, wait: { signal: go } }
  - { id: work, guidance: Do it, depends_on: [hold] }
`;
/// A chain of guided steps.
export const chain = (name, count) => `workflow: ${name}
description: ${count} steps, one after the other
steps:
${Array.from({ length: count }, (_, index) => `  - { id: s${index}, guidance: Do part ${index} }`).join("\n")}
`;
export const asking = `workflow: asking
description: Asks the user
inputs:
  guest: { type: string, optional: true, example: Ada }
steps:
  - { id: ask, input: { properties: [guest], via: elicitation } }
  - { id: serve, guidance: "Serve \${{ inputs.guest }}" }
`;
/// Calls a service that never answers.
export const calling = `workflow: calling
description: Calls a service
requires: { catalogs: [{ vendor: shop }] }
accept: [mutation_without_gate]
steps:
  - { id: send, run: "shop orders:create", body: { what: tea } }
  - { id: tell, guidance: "Tell of it", depends_on: [send] }
`;
export const shop = (port) => JSON.stringify({
  openapi: "3.0.3",
  info: { title: "Shop", version: "1" },
  servers: [{ url: `http://127.0.0.1:${port}` }],
  paths: {
    "/orders": {
      post: {
        operationId: "createOrder",
        requestBody: { content: { "application/json": { schema: { type: "object", properties: { what: { type: "string" } } } } } },
        responses: { 200: { description: "Made", content: { "application/json": { schema: { type: "object" } } } } },
      },
    },
  },
});
/// A graph of layers, each step of which depends on several of the layer before.
export const layers = (name, steps, width, fan) => {
  const lines = [];
  for (let index = 0; index < steps; index += 1) {
    const layer = Math.floor(index / width);
    const before = layer ? Array.from({ length: fan }, (_, at) => `n${(layer - 1) * width + ((index + at) % width)}`) : [];
    lines.push(`  - { id: n${index}, guidance: Do it, depends_on: [${[...new Set(before)].join(", ")}] }`);
  }
  return `workflow: ${name}\ndescription: A large graph\nsteps:\n${lines.join("\n")}\n`;
};
