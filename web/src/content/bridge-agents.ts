/** The agents that `session-gateway-agent` can start, and the command that connects a computer. */

/** `id`: the value of the option `--agent`. `name`: the product's name. A test compares the list with `cli/src/agents.mjs`. */
export const BRIDGE_AGENTS = [
  { id: 'claude', name: 'Claude Code' },
  { id: 'codex', name: 'Codex' },
  { id: 'copilot', name: 'Copilot CLI' },
  { id: 'gemini', name: 'Gemini CLI' },
  { id: 'opencode', name: 'opencode' },
  { id: 'qwen', name: 'Qwen Code' },
] as const;

export type BridgeAgent = (typeof BRIDGE_AGENTS)[number]['id'];

/** Returns the command that starts an agent and connects its computer. Without `code`, the computer shows a code that the user approves. */
export function connectCommand(agent: BridgeAgent, hub: string, code?: string): string {
  return ['npx session-gateway-agent', `--agent ${agent}`, `--hub ${hub}`, ...(code === undefined ? [] : [`--code ${code}`])].join(' ');
}
