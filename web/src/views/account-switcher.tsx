/** The button with the namespace above the session list, which opens the menu of accounts. */

import './accounts.css';
import type { ComponentChildren, FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { namespace, waitingInOtherAccounts } from '../state/store.ts';

export function AccountSwitcher() {
  const [Menu, setMenu] = useState<FunctionComponent<{ children: ComponentChildren }>>();
  // The menu is loaded after the first screen. Without the menu, the namespace is a text and not a button.
  useEffect(() => {
    void import('./account-menu.tsx').then(({ AccountMenu }) => setMenu(() => AccountMenu)).catch(() => {});
  }, []);
  const waiting = waitingInOtherAccounts.value;
  const content = (
    <>
      <span class="chip mono">
        <span class="ellipsis">{namespace.value}</span>
      </span>
      {waiting > 0 && <span class="chip warn">{waiting}</span>}
    </>
  );
  return Menu ? <Menu>{content}</Menu> : <span class="account-button">{content}</span>;
}
