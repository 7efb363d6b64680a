// The commands and the usage text of the hub's npm package.

/** The descriptions of the commands, by the names of their scripts in this folder. */
export const COMMANDS = {
  databases: 'list the databases of a hub, and move a namespace to another database',
  deploy: 'deploy the hub to Cloudflare, or update it',
  devices: 'list, add, rename and revoke the devices of a namespace',
  doctor: 'check this computer, and say what to do about each problem',
  namespace: 'list, export, import and delete namespaces',
  'split-backup': 'rewrite a backup of the database, so that it can be imported',
  smoke: 'check a running hub as its clients see it',
  status: 'print what a namespace of a hub has, and its latest faults',
  token: 'print the access token of one namespace',
  upgrade: 'show what an update of the deployed hub changes, apply the update, and roll it back if a test fails',
  wrangler: "run a command of Cloudflare's tool for the deployed hub, such as rollback",
};

/** The script that runs if no command is given. */
export const DEFAULT_COMMAND = 'start';

const commandLines = Object.entries(COMMANDS).map(([name, description]) => `  ${name.padEnd(16)} ${description}`);

export const PACKAGE_USAGE = `Usage: npx session-gateway-hub [--data DIR] [options]
       npx session-gateway-hub [--data DIR] COMMAND [options]

Without a command, runs the hub on this computer until Ctrl-C. Commands (each has --help):
${commandLines.join('\n')}

  --data DIR       folder of the local hub's data (default ~/.session-gateway-hub)
  --version        the version of this package`;
