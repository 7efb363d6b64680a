// `npm run token -- NAMESPACE`, and a command of the npm package: prints the access token of one namespace, derived from
// CLI_API_TOKEN. Asks a hub only with --hub or --revoke. The token is valid for that namespace only. See docs/DEPLOY.md.

import { isOnThisMachine } from '../packages/cli-kit/src/token.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { accessToken, DEV_VARS_NAME, namespaceToken } from './lib/dev-vars.mjs';
import { main, UsageError, UserError } from './lib/errors.mjs';
import { commandLine } from './lib/invocation.mjs';

const LOCAL_HUB = 'http://127.0.0.1:8787';

const USAGE = `Usage: ${commandLine('token', 'NAMESPACE [--hub URL] [--revoke]')}

Prints the access token of a namespace (1 to 64 of A-Z a-z 0-9 . _ -), which is valid for that namespace only. Reads the
secret from the environment variable CLI_API_TOKEN, else from ${DEV_VARS_NAME}.

  --hub URL  ask this hub for the current generation of the tokens. Needed after a revocation
  --revoke   first end all tokens, devices and JWTs of the namespace. The hub is ${LOCAL_HUB} unless --hub is given
  --help     this text`;

/** Refuses an address to which the secret must not be sent: without encryption, or the secret of the local hub to another one. */
function requireSafeHub(hub) {
  if (!URL.canParse(hub)) throw new UsageError(`--hub must be a URL, but is ${hub}`, USAGE);
  if (isOnThisMachine(hub)) return;
  if (new URL(hub).protocol !== 'https:') throw new UsageError(`--hub must be an https address, but is ${hub}`, USAGE);
  if (!process.env.CLI_API_TOKEN) {
    throw new UsageError(`Set CLI_API_TOKEN to the secret of ${hub}: the secret in ${DEV_VARS_NAME} is that of the local hub.`, USAGE);
  }
}

/** Asks a hub for the generation of the namespace's tokens, and with `revoke` begins the next one. */
async function fetchGeneration(hub, secret, namespace, revoke) {
  const [method, path] = revoke ? ['POST', 'revoke'] : ['GET', 'generation'];
  const url = new URL(`/api/namespaces/${path}`, hub);
  const headers = { authorization: `Bearer ${secret}:${namespace}` };
  const response = await fetch(url, { method, headers }).catch((error) => {
    throw new UserError(
      `The hub ${url.origin} cannot be reached: ${error.cause?.message ?? error.message}.`,
      'Give its address with --hub URL.',
    );
  });
  const body = await response.json().catch(() => ({}));
  if (!Number.isInteger(body.generation)) {
    const hint =
      response.status === 401 ? 'Set CLI_API_TOKEN to the secret of this hub.' : 'Check the address, and deploy the newest version.';
    throw new UserError(`The hub ${url.origin} answered ${response.status}: ${body.error ?? 'no JSON'}`, hint);
  }
  return body.generation;
}

await main(async () => {
  const { help, words, revoke, ...values } = parseCommandLine(
    process.argv.slice(2),
    USAGE,
    { hub: { type: 'string' }, revoke: { type: 'boolean', default: false } },
    { words: true },
  );
  const hub = /** @type {string | undefined} */ (values.hub);
  if (help) {
    console.log(USAGE);
    return 0;
  }
  const [namespace, ...rest] = words ?? [];
  if (!namespace || rest.length > 0 || !/^[A-Za-z0-9._-]{1,64}$/.test(namespace)) {
    throw new UsageError('Give one namespace: 1 to 64 of A-Z a-z 0-9 . _ -', `Example: ${commandLine('token', 'team-a')}`);
  }
  if (hub !== undefined) requireSafeHub(hub);
  const secret = process.env.CLI_API_TOKEN || accessToken();
  const generation = hub !== undefined || revoke ? await fetchGeneration(hub ?? LOCAL_HUB, secret, namespace, revoke) : 0;
  if (revoke) console.error(`All earlier tokens, devices and JWTs of ${namespace} are revoked.`);
  console.log(namespaceToken(secret, namespace, generation));
  if (!process.env.CLI_API_TOKEN) console.error(`From ${DEV_VARS_NAME}: a token of the local hub.`);
  return 0;
});
