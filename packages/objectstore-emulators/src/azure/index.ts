export { type AzureEmulator, type AzureEmulatorOptions, openAzureEmulator } from './azure-emulator.ts'
export { type ManagedIdentity, openManagedIdentity } from './managed-identity.ts'
export { ACCOUNT, ACCOUNT_KEY, type AzureClient, plainAzureClient } from './plain-client.ts'
