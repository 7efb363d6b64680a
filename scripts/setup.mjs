// `npm run setup`: installs what the other commands need, without starting anything.

import { main } from './lib/errors.mjs';
import { setup } from './lib/setup.mjs';

await main(async () => {
  await setup();
  console.log('Everything is set up. Next: `npm run dev` starts the hub, `npm test` runs every check.');
});
