/** The agents from npm, installed outside of the repository, and their settings for the scripted model. */

import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { AGENTS } from '../../src/agents.mjs';
import { withLock } from '../../../scripts/lib/lock.mjs';
import { findProgram } from '../../src/launch.mjs';

/** The folder of the packages; 0.4 GB for each agent. */
const CACHE =
  process.env.HUB_AGENTS_DIR ?? path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'session-gateway-hub', 'agents');

const INSTALL_MS = 10 * 60_000;

/** Variables of the user's own agents. They would change the settings, the model or the account. */
const OWN_VARIABLES = /^(ANTHROPIC|CLAUDE|CODEX|COPILOT|GEMINI|GOOGLE|OPENAI|OPENCODE|QWEN)|^(IS_SANDBOX|GH_TOKEN|GITHUB_TOKEN)$/;

const KEY = 'no-key';

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
          attachment: true,
          modalities: { input: ['text', 'image'], output: ['text'] },
          limit: { context: 100_000, output: 8000 },
        },
      },
    },
  },
});

/**
 * Installs an agent unless it is installed.
 * @param {string} name
 * @returns {Promise<string>} the folder of its program
 * @throws {Error} when npm cannot install it: a sentence
 */
export async function installAgent(name) {
  const { package: wanted, command } = AGENTS[name];
  const folder = path.join(CACHE, wanted.replaceAll(/[^A-Za-z0-9.-]+/g, '_'));
  const bin = path.join(folder, 'node_modules', '.bin');
  const isInstalled = () => findProgram(command, { PATH: bin });
  if (isInstalled()) return bin;
  mkdirSync(folder, { recursive: true });
  await withLock(path.join(folder, '.lock'), `installation of ${wanted}`, async () => {
    // Another process may have installed it while this one waited for the lock.
    if (!isInstalled()) await npmInstall(wanted, folder);
  });
  return bin;
}

async function npmInstall(wanted, folder) {
  // Without a connection, npm's own times between retries are minutes.
  const options = ['--no-audit', '--no-fund', '--loglevel=error', '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=10000'];
  try {
    await promisify(execFile)('npm', ['install', '--prefix', folder, ...options, wanted], { timeout: INSTALL_MS });
  } catch (error) {
    const reason = /npm error (?!code|errno|syscall|A complete log)(.+)/.exec(error.stderr)?.[1] ?? error.message.split('\n')[0];
    throw new Error(`npm cannot install ${wanted}: ${reason}`);
  }
}

/** The environment in which the CLI starts the agent, with a home directory of its own. */
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
