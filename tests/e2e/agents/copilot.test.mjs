import { testAgent } from './story.mjs';

await testAgent('copilot');
