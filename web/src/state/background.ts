/** Work of a signed-in page that no view needs, such as watching the other accounts. Loaded after the first screen. */

import { watchOtherAccounts } from './other-accounts.ts';
import { showCountOnIcon } from './page-icon.ts';
import { refreshPushStatus, replaceSubscription } from './push.ts';
import { registerServiceWorker } from './service-worker.ts';

export async function startBackgroundTasks(): Promise<void> {
  watchOtherAccounts(() => void replaceSubscription());
  void showCountOnIcon().catch(() => {});
  navigator.serviceWorker?.addEventListener('message', ({ data }: MessageEvent<{ type?: string } | null>) => {
    if (data?.type === 'push-lost') void refreshPushStatus();
  });
  await registerServiceWorker();
  await refreshPushStatus();
}
