/** The settings of the agents for the scripted model. */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Variables of the user's own agents, which would change the settings, the model or the account. */
const OWN_VARIABLES = /^(ANTHROPIC|CLAUDE|CODEX|COPILOT|GEMINI|GOOGLE|OPENAI|OPENCODE|QWEN)|^(IS_SANDBOX|GH_TOKEN|GITHUB_TOKEN)$/;

/** The key of the scripted model, which accepts any key. */
export const KEY = 'no-key';

/**
 * The environment of each agent for the model at `url`. `home`: the agent's home directory.
 * @type {Record<string, (url: string, home: string) => Record<string, string>>}
 */
const ENVIRONMENTS = {
  claude: (url) => ({
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: KEY,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    DISABLE_AUTOUPDATER: '1',
    // Some containers set this value. The adapter accepts any value, and Claude Code only `1`.
    IS_SANDBOX: 'yes',
  }),
  codex: (url, home) => {
    const folder = path.join(home, 'codex');
    mkdirSync(folder);
    writeFileSync(path.join(folder, 'config.toml'), codexConfig(url));
    return { CODEX_HOME: folder, SCRIPTED_KEY: KEY, NO_BROWSER: '1' };
  },
  copilot: (url) => ({
    COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
    COPILOT_PROVIDER_TYPE: 'openai',
    COPILOT_PROVIDER_API_KEY: KEY,
    COPILOT_MODEL: 'scripted',
    COPILOT_OFFLINE: 'true',
  }),
  gemini: (url) => ({
    GOOGLE_GEMINI_BASE_URL: url,
    GEMINI_API_KEY: KEY,
    GEMINI_TELEMETRY_ENABLED: 'false',
    GEMINI_CLI_TRUST_WORKSPACE: 'true',
  }),
  opencode: (url) => ({
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_DISABLE_SHARE: '1',
    OPENCODE_CONFIG_CONTENT: JSON.stringify(opencodeConfig(url)),
  }),
  // A model that Qwen Code knows to take pictures.
  qwen: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: KEY, OPENAI_MODEL: 'qwen3-vl-plus' }),
};

const codexConfig = (url) => `model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
[model_providers.scripted]
name = "Scripted"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
requires_openai_auth = false
# Without this table, Codex writes no plan.
[tools.update_plan]
enabled = true
[analytics]
enabled = false
`;

const opencodeConfig = (url) => ({
  model: 'scripted/scripted',
  small_model: 'scripted/scripted',
  share: 'disabled',
  autoupdate: false,
  provider: {
    scripted: {
      npm: '@ai-sdk/openai-compatible',
      name: 'Scripted',
      options: { baseURL: `${url}/v1`, apiKey: KEY },
      models: {
        scripted: {
          name: 'Scripted',
          tool_call: true,
          // opencode offers an effort only for such a model.
          reasoning: true,
          attachment: true,
          modalities: { input: ['text', 'image'], output: ['text'] },
          limit: { context: 100_000, output: 8000 },
        },
      },
    },
  },
});

/** Returns the environment in which the CLI starts the agent, with a separate home directory. */
export function environmentFor(name, { url, home, bin }) {
  const folders = { XDG_CONFIG_HOME: 'config', XDG_DATA_HOME: 'data', XDG_CACHE_HOME: 'cache', XDG_STATE_HOME: 'state' };
  const removed = Object.keys(process.env).filter((variable) => OWN_VARIABLES.test(variable));
  return {
    ...Object.fromEntries(removed.map((variable) => [variable, undefined])),
    PATH: `${bin}${path.delimiter}${process.env.PATH}`,
    HOME: home,
    ...Object.fromEntries(Object.entries(folders).map(([variable, folder]) => [variable, path.join(home, folder)])),
    ...ENVIRONMENTS[name](url, home),
  };
}
