/** fast-check with a fixed seed, so that each run checks the same inputs. `FAST_CHECK_SEED` is another seed. */

import fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env.FAST_CHECK_SEED ?? 1) });

export default fc;
