/** The menu that switches between the accounts of this browser. */

import { Check, ExternalLink, LogOut, UserPlus } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useLocation } from 'wouter-preact';
import { SIGN_IN_PATH } from '../content/device-code.ts';
import { accounts } from '../state/account.ts';
import { switchAccount } from '../state/hub-client.ts';
import { otherHubs } from '../state/other-hubs.ts';
import { namespace, type OtherAccount, otherAccounts, waitingCount, waitingInOtherAccounts } from '../state/store.ts';
import { MenuButton, type MenuItem } from '../ui/menu.tsx';
import { confirmSignOut } from './sign-out.ts';

export function AccountMenu({ children }: { children: ComponentChildren }) {
  const [, navigate] = useLocation();
  const current = namespace.value ?? '';
  const others = otherAccounts.value;
  const waiting = waitingInOtherAccounts.value;
  const items: MenuItem[] = [
    ...listAccounts().map(({ namespace: name, ...counts }) => ({
      label: name,
      icon: <Check size={18} class={name === current ? '' : 'is-hidden'} />,
      isSelected: name === current,
      detail: <AccountCounts {...counts} />,
      onSelect: () => name !== current && switchAccount(name),
    })),
    ...otherHubs.value.map(({ name, origin }) => ({
      key: origin,
      label: name,
      icon: <ExternalLink size={18} />,
      detail: <span class="muted small ellipsis">{origin.replace(/.*\/\//, '')}</span>,
      onSelect: () => location.assign(origin),
    })),
    { label: 'Add account', icon: <UserPlus size={18} />, onSelect: () => navigate(SIGN_IN_PATH) },
    { label: `Sign out of ${current}`, icon: <LogOut size={18} />, isDangerous: true, onSelect: confirmSignOut },
  ];
  const label = others.length === 0 ? `Account ${current}` : `Account ${current}, ${waiting} waiting in other accounts`;
  return (
    <MenuButton label={label} items={items} class="account-button">
      {children}
    </MenuButton>
  );
}

/** Returns all accounts in their order, with what waits in each. */
export function listAccounts(): OtherAccount[] {
  const others = new Map(otherAccounts.value.map((account) => [account.namespace, account]));
  return accounts.all().map(({ namespace: name }) => others.get(name) ?? { namespace: name, waiting: waitingCount.value, unsent: 0 });
}

export function AccountCounts({ waiting, unsent }: Omit<OtherAccount, 'namespace'>) {
  return (
    <>
      {unsent > 0 && <span class="muted small">{unsent === 1 ? '1 unsent message' : `${unsent} unsent messages`}</span>}
      {waiting > 0 && <span class="chip warn">{waiting} waiting</span>}
    </>
  );
}
