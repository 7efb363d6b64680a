// What the checks read: files and folders. scripts/test/layers.test.mjs finds imports that are missing here.

import { CRATE_INPUTS } from '../build/build.mjs';
import { CONSOLE_INPUTS } from '../build/console.mjs';
import { JAVASCRIPT_PROJECTS } from '../build/types.mjs';

const words = (/** @type {string} */ text) => text.match(/\S+/g);

/** The inputs of the native tests' compiler: some tests contain pages of the documentation. */
export const NATIVE_INPUTS = [...CRATE_INPUTS, 'tests/it', 'fuzz', 'docs'];
export const WASM_INPUTS = [...CRATE_INPUTS, 'tools/bind', ...['build', 'rust', 'worker'].map((name) => `scripts/build/${name}.mjs`)];
export const WEB_TYPE_INPUTS = words(
  'web/src web/package.json web/tsconfig.json web/vite.config.ts docs/openapi.yaml scripts/build/types.mjs',
);
export const CLIS = ['packages/cli-kit', 'cli', 'examples/shell-agent'];

/** The inputs of the tests of the CLIs, except the test files. */
export const CLI_TEST_INPUTS = [
  ...CLIS.flatMap((folder) => [`${folder}/package.json`, `${folder}/src`, `${folder}/test/support`]),
  ...words(`
    cli/index.mjs cli/test/agents cli/test/soak cli/test/transcripts cli/test/translate/support examples/shell-agent/index.mjs .npmrc
    web/src/api web/src/content scripts/lib scripts/build
  `),
];

/** The inputs of the end-to-end tests, except the test files. */
export const E2E_INPUTS = [
  ...WASM_INPUTS,
  ...CONSOLE_INPUTS,
  ...words(`
    docs README.md migrations wrangler.toml .dev.vars.example scripts cli examples packages tests/e2e/lib tests/e2e/package.json
    tests/e2e/official-exports.json
  `),
];

/** The inputs of the type checker of JavaScript. */
export const JAVASCRIPT_TYPE_INPUTS = [
  ...JAVASCRIPT_PROJECTS,
  ...CLIS,
  ...words('scripts src/platform bench tests/e2e web/src web/package.json docs/openapi.yaml'),
];

/** The inputs of the tests of the scripts, some of which read all sources and pages. */
export const SCRIPT_TEST_INPUTS = [
  ...CLIS,
  ...words(`
    scripts src migrations docs README.md CONTRIBUTING.md CHANGELOG.md LICENSE SECURITY.md .github .gitignore tests fuzz bench web/src
    web/test web/package.json web/vite.config.ts wrangler.toml Cargo.toml Cargo.lock tools/bind/Cargo.lock
  `),
];
