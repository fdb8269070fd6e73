"""Pure: recipe x topology x nodes -> Plan. No pyinfra, no network, no clock."""
