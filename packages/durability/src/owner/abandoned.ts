/** Instances that this process has dropped: what they left in the store stays, and no run is behind it any more. */
const abandonedHere = new Set<string>()

/** Whether a run of this process was dropped under that instance id. */
export function wasAbandoned(instanceId: string): boolean {
  return abandonedHere.has(instanceId)
}

/** A run is dropped. */
export function noteAbandoned(instanceId: string): void {
  abandonedHere.add(instanceId)
}
