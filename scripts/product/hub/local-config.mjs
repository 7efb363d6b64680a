// The configuration with which wrangler runs the local hub of the npm package.

import { mkdirSync, writeFileSync } from 'node:fs';
import { DATA_DIR, inProject } from '../../lib/paths.mjs';
import { readWranglerToml } from '../../lib/worker-settings.mjs';
import { LOCAL_CONFIG } from './wrangler.mjs';

const NOTE = '// Written at each start. What you want to change goes into .dev.vars, one NAME=VALUE in a line.';

/** Writes wrangler.toml without its build, and with the absolute paths of this version of the package. */
export function writeLocalConfig() {
  const { build: _, ...settings } = readWranglerToml();
  const config = {
    ...settings,
    main: inProject(settings.main),
    assets: { ...settings.assets, directory: inProject(settings.assets.directory) },
    d1_databases: settings.d1_databases.map((database) => ({ ...database, migrations_dir: inProject(database.migrations_dir) })),
  };
  mkdirSync(DATA_DIR, { recursive: true });
  writeFileSync(LOCAL_CONFIG, `${NOTE}\n${JSON.stringify(config, null, 2)}\n`);
}
