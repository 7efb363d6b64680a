// `npm run token -- NAMESPACE`, and a command of the npm package: prints the access token of one namespace, derived from
// CLI_API_TOKEN. Asks a hub only with --hub or --revoke. The token is valid for that namespace only. See docs/SETTINGS.md.

import { parseCommandLine } from '../lib/command-line.mjs';
import { accessToken, DEV_VARS_NAME, namespaceToken } from '../lib/dev-vars.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { LOCAL_HUB } from './hub/local-hub.mjs';
import { requestAsOperator, isNamespace, hubAccess } from './namespace/operator.mjs';

const USAGE = `Usage: ${commandLine('token', 'NAMESPACE [--hub URL] [--revoke]')}

Prints the access token of a namespace (1 to 64 of A-Z a-z 0-9 . _ -), which is valid for that namespace only. Reads the
secret from the environment variable CLI_API_TOKEN, else from ${DEV_VARS_NAME}.

  --hub URL  ask this hub for the current generation of the tokens. Needed after a revocation
  --revoke   first end all tokens, devices and JWTs of the namespace. The hub is ${LOCAL_HUB} unless --hub is given
  --help     this text`;

await main(async () => {
  const { words, revoke, ...values } = parseCommandLine(
    process.argv.slice(2),
    USAGE,
    { hub: { type: 'string' }, revoke: { type: 'boolean', default: false } },
    { words: true },
  );
  const hub = /** @type {string | undefined} */ (values.hub);
  const [namespace, ...extraWords] = words ?? [];
  if (!namespace || extraWords.length > 0 || !isNamespace(namespace)) {
    throw new UsageError('Give one namespace: 1 to 64 of A-Z a-z 0-9 . _ -', `Example: ${commandLine('token', 'team-a')}`);
  }
  const operatorHub = hub !== undefined || revoke ? hubAccess(hub, USAGE) : undefined;
  const secret = operatorHub?.secret ?? (process.env.CLI_API_TOKEN || accessToken());
  /** @type {['GET' | 'POST', string]} */
  const [method, path] = revoke ? ['POST', 'revoke'] : ['GET', 'generation'];
  const { generation } = operatorHub ? await requestAsOperator(operatorHub, namespace, method, path) : { generation: 0 };
  if (revoke) console.error(`All earlier tokens, devices and JWTs of ${namespace} are revoked.`);
  console.log(namespaceToken(secret, namespace, generation));
  if (!process.env.CLI_API_TOKEN) console.error(`From ${DEV_VARS_NAME}: a token of the local hub.`);
  return 0;
});
